"""A stack in Kubernetes: a Secret for each part with what it needs, and nobody else's credentials."""

import json
from pathlib import Path
from typing import cast

import pytest
import yaml

from muster.bus.settings import Settings, load_settings
from muster.stack.declared import SERVICES
from muster.stack.in_kubernetes import broker_of, write
from muster.stack.parts import Layout

LAYOUT = Layout(
    http_url="https://muster.example.com",
    websocket_url="wss://muster.example.com/bus",
    nats_url="nats://127.0.0.1:4222",
    flat=True,
)
HOME = Path("/var/lib/muster")


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"state_dir": "/x", "credentials_dir": "/x", "kubernetes": {}, **sections})


def written(directory: Path, *, now_s: int = 1_700_000_000, **sections: object) -> dict[str, dict[str, Path]]:
    """Files by their key, of each Secret."""
    write(directory, LAYOUT, settings(**sections), now_s=now_s)
    told = yaml.safe_load((directory / "kustomization.yaml").read_text())
    return {
        str(one["name"]): {key: directory / path for key, _, path in (line.partition("=") for line in one["files"])}
        for one in cast("list[dict[str, list[str]]]", told["secretGenerator"])
    }


def mounted(files: dict[str, Path], place: Path) -> Path:
    """As a volume of a Secret shows it: files alone."""
    place.mkdir()
    for key, path in files.items():
        assert "/" not in key
        (place / key).write_bytes(path.read_bytes())
    return place


def test_every_service_finds_in_its_volume_what_its_settings_name(tmp_path: Path) -> None:
    secrets = written(tmp_path)
    for service in SERVICES:
        place = mounted(secrets[f"muster-{service}"], tmp_path / f"volume-{service}")
        read = load_settings(place, {})
        assert (read.state_dir, read.credentials_dir) == (HOME, HOME)
        assert read.nats_url == "nats://nats:4222"
        assert (place / f"{service}.creds").is_file()


def test_a_service_holds_its_own_credentials_and_those_of_folding_alone(tmp_path: Path) -> None:
    secrets = written(tmp_path)
    held = {name: {key for key in files if key.endswith(".creds")} for name, files in secrets.items()}
    assert held["muster-scheduler"] == {"scheduler.creds", "reader.creds", "monitor.creds", "lease.creds"}
    assert held["muster-gateway"] == {"gateway.creds", "gateway-query.creds", "gateway-live.creds"}
    assert held["muster-bus"] == {"bootstrap.creds"}
    assert held["muster-nats"] == held["muster-redis"] == set()


def test_keys_and_what_the_admin_holds_stay_on_the_admins_machine(tmp_path: Path) -> None:
    secrets = written(tmp_path)
    sources = {path.relative_to(tmp_path).parts[0] for files in secrets.values() for path in files.values()}
    assert sources.isdisjoint({"keys", "host", "cli"})
    everything = b"".join(path.read_bytes() for files in secrets.values() for path in files.values())
    for key in (tmp_path / "keys").glob("*.nk"):
        if not key.name.startswith("user-") and key.stem != "view-signer":
            assert key.read_bytes() not in everything, key.name
    assert (tmp_path / "host" / "token").is_file()


def test_only_who_uses_redis_knows_its_password(tmp_path: Path) -> None:
    secrets = written(tmp_path)
    password = (tmp_path / "keys" / "redis-password").read_bytes()
    knowing = {name for name, files in secrets.items() if any(password in path.read_bytes() for path in files.values())}
    assert knowing == {"muster-gateway", "muster-projector", "muster-notifier"}, "Redis itself has its hash"


def test_again_keys_and_token_stay_and_credentials_are_made_anew(tmp_path: Path) -> None:
    first = {name: path.read_bytes() for name, path in written(tmp_path)["muster-scheduler"].items()}
    token = (tmp_path / "host" / "token").read_bytes()
    second = {
        name: path.read_bytes() for name, path in written(tmp_path, now_s=1_700_009_000)["muster-scheduler"].items()
    }
    assert first["settings.json"] == second["settings.json"]
    assert first["scheduler.creds"] != second["scheduler.creds"]
    assert (tmp_path / "host" / "token").read_bytes() == token


@pytest.mark.parametrize(("copies", "servers"), [(1, 0), (3, 3), (5, 5)])
def test_there_are_as_many_servers_as_copies_of_each_stream(copies: int, servers: int) -> None:
    broker = broker_of(settings(bus={"replicas": copies}))
    assert len(broker.servers) == servers
    assert broker.sync_interval_s == 0


def test_servers_that_work_together_know_each_other_by_a_password(tmp_path: Path) -> None:
    told = written(tmp_path, bus={"replicas": 3})["muster-nats"]["nats-server.conf"].read_text()
    password = (tmp_path / "keys" / "route-password").read_text()
    for number in range(3):
        assert f"nats-route://route:{password}@nats-{number}.nats-servers:6222" in told
    assert "server_name: $SERVER_NAME\n" in told
    assert 'sync_interval: "always"' in told


def test_files_that_settings_name_go_to_the_part_that_reads_them(tmp_path: Path) -> None:
    for name in ("login", "sign", "slack"):
        (tmp_path / name).write_text(f"the {name}")
    secrets = written(
        tmp_path / "out",
        fabrics=[{"name": "rack", "url": "https://manager.example.com", "credentials": str(tmp_path / "login")}],
        webhooks=[
            {"name": "ci", "url": "https://ci.example.com/", "events": ["job-ended"], "secret": str(tmp_path / "sign")},
            {"name": "chat", "url_file": str(tmp_path / "slack"), "events": ["job-ended"], "format": "slack"},
        ],
    )
    assert secrets["muster-composer"]["fabric-rack.json"].read_text() == "the login"
    assert secrets["muster-notifier"]["webhook-ci.key"].read_text() == "the sign"
    assert secrets["muster-notifier"]["webhook-chat.url"].read_text() == "the slack"
    carried = {name for name, files in secrets.items() if {"fabric-rack.json", "webhook-ci.key"} & set(files)}
    assert carried == {"muster-composer", "muster-notifier"}
    read = json.loads(secrets["muster-notifier"]["settings.json"].read_text())
    assert read["fabrics"][0]["credentials"] == "/var/lib/muster/fabric-rack.json"
    assert [hook["secret"] or hook["url_file"] for hook in read["webhooks"]] == [
        "/var/lib/muster/webhook-ci.key",
        "/var/lib/muster/webhook-chat.url",
    ]


def test_a_simulated_fabric_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fabrics\[rack\]\.simulated: no simulator runs in Kubernetes"):
        written(tmp_path, fabrics=[{"name": "rack", "simulated": {"pool": {"A100": 2}}}])


def test_everything_that_is_written_only_its_owner_reads(tmp_path: Path) -> None:
    written(tmp_path)
    assert [str(path) for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_mode & 0o077] == []
