"""A stack whose parts run apart: every part gets what it needs, and nobody else's credentials."""

import json
import stat
from pathlib import Path

import pytest

from muster.bus.settings import Settings, load_settings
from muster.stack.declared import SERVICES
from muster.stack.parts import BUS, CLI, GRAFANA, HOST, KEYS, NATS, Layout
from muster.stack.provision import provision

LAYOUT = Layout(
    http_url="http://127.0.0.1:18080", websocket_url="ws://127.0.0.1:19222", nats_url="nats://127.0.0.1:14222"
)
FABRIC = {"name": "rack", "simulated": {"pool": {"A100": 2}}}
NOW_S = 1_700_000_000


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"state_dir": "/x", "credentials_dir": "/x", "fabrics": [FABRIC], **sections})


def provisioned(directory: Path, *, now_s: int = NOW_S, **sections: object) -> Path:
    provision(directory, LAYOUT, settings(**sections), now_s=now_s)
    return directory


def creds(state: Path, part: str) -> set[str]:
    return {file.stem for file in (state / part / "creds").glob("*.creds")}


def everything(state: Path) -> dict[str, bytes]:
    return {str(file.relative_to(state)): file.read_bytes() for file in state.rglob("*") if file.is_file()}


def test_every_service_has_a_part_with_settings_that_it_can_read(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    for service in SERVICES:
        read = load_settings(state / service, {})
        assert (read.nats_url, read.http_host, read.metrics_port) == ("nats://nats:4222", "0.0.0.0", 9100)


def test_a_service_holds_its_own_credentials_and_those_of_folding_alone(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    assert creds(state, "scheduler") == {"scheduler", "reader", "monitor", "lease"}
    assert creds(state, "gateway") == {"gateway", "gateway-query", "gateway-live"}
    assert creds(state, BUS) == {"bootstrap"}
    assert creds(state, HOST) == creds(state, CLI) == {"operator", "admin-tools"}


def test_only_the_gateway_can_sign_for_dashboards(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    signers = {path.relative_to(state).parts[0] for path in state.rglob("view-signer.json")}
    assert signers == {"gateway", KEYS}


def test_only_who_uses_redis_knows_its_password(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    password = (state / KEYS / "redis-password").read_bytes()
    knowing = {name.split("/")[0] for name, content in everything(state).items() if password in content}
    assert knowing == {"gateway", "projector", "notifier", KEYS}, "Redis itself has its hash"


def test_no_service_whose_code_opens_redis_is_left_without_its_password(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    services = Path(__file__).parents[3] / "services" / "muster"
    opening = {
        name for name in SERVICES if any("settings.redis_url" in f.read_text() for f in (services / name).rglob("*.py"))
    }
    assert opening
    for name in opening:
        assert load_settings(state / name, {}).redis_url.startswith("redis://:")


def test_only_the_admins_parts_and_the_bus_hold_the_token(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    token = (state / KEYS / "token").read_bytes()
    assert {name.split("/")[0] for name, content in everything(state).items() if token in content} == {
        BUS, CLI, HOST, KEYS,
    }  # fmt: skip


def test_only_who_calls_fabrics_can_log_in_there(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    assert {path.relative_to(state).parts[0] for path in state.rglob("fabric-rack.json")} == {
        "composer", "fabric-simulator", KEYS,
    }  # fmt: skip
    fabric = load_settings(state / "composer", {}).fabrics[0]
    assert fabric.url == "http://fabric-simulator:8070/rack"


def test_no_seed_but_a_parts_own_leaves_the_keys(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    for seed in (state / KEYS).glob("account-*.nk"):
        holding = {name.split("/")[0] for name, content in everything(state).items() if seed.read_bytes() in content}
        assert holding == {KEYS}


def test_again_keeps_keys_passwords_and_token_and_takes_changed_settings(tmp_path: Path) -> None:
    before = everything(provisioned(tmp_path))
    after = everything(provisioned(tmp_path, now_s=NOW_S + 60, fleet={"nodes": 3}))
    kept = [name for name in before if name.startswith("keys/") and "/creds/" not in name]
    kept += ["redis/redis.conf", "cli/token", "grafana/admin-password"]
    assert all(before[name] == after[name] for name in kept)
    assert json.loads(after["agent/settings.json"])["fleet"]["nodes"] == 3


def test_credentials_that_a_part_may_no_longer_hold_are_removed(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    old = state / "agent" / "creds" / "scheduler.creds"
    old.write_text("once mine")
    provisioned(tmp_path)
    assert not old.exists()


def test_nobody_else_of_the_machine_may_read_any_of_it(tmp_path: Path) -> None:
    state = provisioned(tmp_path)
    assert {stat.S_IMODE(file.stat().st_mode) for file in state.rglob("*") if file.is_file()} == {0o600}


def test_the_broker_listens_for_its_network_and_takes_the_dashboards_pages_alone(tmp_path: Path) -> None:
    conf = (provisioned(tmp_path) / NATS / "nats-server.conf").read_text()
    assert 'listen: "0.0.0.0:4222"' in conf
    assert 'listen: "0.0.0.0:9222"' in conf
    assert 'http: "127.0.0.1:8222"' in conf
    assert 'allowed_origins: ["http://127.0.0.1:18080", "http://localhost:18080"]' in conf


def test_a_page_under_a_name_of_its_own_is_its_only_origin() -> None:
    layout = Layout(http_url="https://muster.example/", websocket_url="wss://x", nats_url="nats://x")
    assert layout.origins == ("https://muster.example",)


def test_a_page_of_this_machine_has_the_scheme_of_its_address() -> None:
    layout = Layout(http_url="https://127.0.0.1:18443", websocket_url="ws://x", nats_url="nats://x")
    assert layout.origins == ("https://127.0.0.1:18443", "https://localhost:18443")


def test_commands_in_the_stacks_network_speak_tls_to_a_gateway_with_a_certificate(tmp_path: Path) -> None:
    tls = {"certificate": "/tls/tls.crt", "key": "/tls/tls.key", "ca_file": "/tls/ca.crt"}
    plain, secured = provisioned(tmp_path / "plain"), provisioned(tmp_path / "tls", tls=tls)
    found = [json.loads((state / CLI / "run" / "endpoints.json").read_text()) for state in (plain, secured)]
    assert [(one["http"], one["ca_file"]) for one in found] == [
        ("http://gateway:8080", ""),
        ("https://gateway:8080", "/tls/ca.crt"),
    ]


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    bad = Layout(http_url="127.0.0.1:8080", websocket_url="", nats_url="")
    with pytest.raises(ValueError, match="http_url"):
        provision(tmp_path, bad, settings(), now_s=NOW_S)


def test_settings_that_a_service_cannot_work_with_are_refused(tmp_path: Path) -> None:
    flex = {"name": "flex", "composable": True, "fabric": "rack9", "nodes_max": 1, "gpus_max": 1, "gpu_models": ["A"]}
    with pytest.raises(ValueError, match="rack9"):
        provisioned(tmp_path, scaling={"groups": [flex]})


def test_browsers_are_told_the_outside_addresses(tmp_path: Path) -> None:
    read = load_settings(provisioned(tmp_path) / "gateway", {})
    assert (read.websocket_url, read.dashboard_url) == (LAYOUT.websocket_url, LAYOUT.http_url)
    assert json.loads((tmp_path / HOST / "run" / "endpoints.json").read_text())["http"] == LAYOUT.http_url
    assert (tmp_path / GRAFANA / "admin-password").read_text()
