"""compose/compose.identity.yaml as text: the stack of compose.yaml with TLS and an identity provider."""

import json
from pathlib import Path
from typing import cast

import yaml

from muster.bus.settings import Settings
from muster.stack.parts import CLI, Layout
from muster.stack.provision import provision

COMPOSE = Path(__file__).parents[3] / "compose"
TLS = Path("/etc/muster/tls")
SETTINGS = "/etc/muster/settings.yaml"
Service = dict[str, object]


def told(name: str) -> dict[str, object]:
    return cast("dict[str, object]", yaml.safe_load((COMPOSE / name).read_text(encoding="utf-8")))


def services(name: str = "compose.identity.yaml") -> dict[str, Service]:
    return cast("dict[str, Service]", told(name)["services"])


def places(service: Service) -> dict[str, str]:
    """Where files and directories of this machine are mounted: source by target. All are read-only."""
    found = {}
    for volume in cast("list[object]", service.get("volumes", [])):
        if isinstance(volume, dict):
            assert volume["read_only"] is True
            assert volume["bind"] == {"create_host_path": False}
            found[str(volume["target"])] = str(volume["source"])
        else:
            source, target, mode = str(volume).split(":")
            assert mode == "ro"
            found[target] = source.removeprefix("./")
    return found


def settings() -> Settings:
    said = told("settings.identity.yaml")
    return Settings.model_validate({**said, "state_dir": "/x", "credentials_dir": "/x"})


def test_the_override_changes_containers_that_there_are_and_nothing_of_how_they_are_confined() -> None:
    for name, changed in services().items():
        assert set(changed) <= {"volumes", "environment", "healthcheck"}
        assert name in services("compose.yaml")


def test_only_the_gateway_sees_the_key_and_who_speaks_to_it_the_authority() -> None:
    mounted = {name: {place for place in places(service) if TLS in (Path(place), *Path(place).parents)}
               for name, service in services().items()}  # fmt: skip
    assert {name for name, found in mounted.items() if str(TLS) in found} == {"gateway"}
    others = {name for name, found in mounted.items() if found and name != "gateway"}
    assert others == {"queues", "cli", "prometheus"}
    assert all(mounted[name] == {str(TLS / "ca.crt")} for name in others)


def test_the_settings_are_those_of_the_stack_with_two_sections_more() -> None:
    said = told(places(services()["init"])[SETTINGS])
    assert {name: said[name] for name in said if name not in ("tls", "identity")} == told("settings.yaml")
    assert settings().identity.oidc is not None


def test_the_settings_name_what_is_mounted() -> None:
    tls = settings().tls
    assert (tls.certificate, tls.key, tls.ca_file) == (TLS / "tls.crt", TLS / "tls.key", TLS / "ca.crt")


def test_commands_health_checks_and_prometheus_speak_tls_to_the_gateway(tmp_path: Path) -> None:
    environment = cast("dict[str, str]", services()["init"]["environment"])
    usual = cast("dict[str, str]", services("compose.yaml")["init"]["environment"])
    (name,) = environment
    assert environment[name] == usual[name].replace("http://", "https://")
    layout = Layout(http_url="https://127.0.0.1:1", websocket_url="ws://127.0.0.1:2", nats_url="nats://127.0.0.1:3")
    provision(tmp_path, layout, settings(), now_s=1)
    endpoints = json.loads((tmp_path / CLI / "run" / "endpoints.json").read_text())
    assert (endpoints["http"], endpoints["ca_file"]) == ("https://gateway:8080", str(TLS / "ca.crt"))
    asked = cast("dict[str, list[str]]", services()["gateway"]["healthcheck"])["test"]
    usually = cast("dict[str, list[str]]", services("compose.yaml")["gateway"]["healthcheck"])["test"]
    assert asked == [word.replace("http://", "https://") for word in usually]


def test_prometheus_reads_the_same_over_tls() -> None:
    file = places(services()["prometheus"])["/etc/prometheus/prometheus.yml"]
    here, usual = told(file), told("prometheus/prometheus.yml")
    jobs = {str(job["job_name"]): job for job in cast("list[dict[str, object]]", here["scrape_configs"])}
    api = jobs["muster-api"]
    assert (api.pop("scheme"), api.pop("tls_config")) == ("https", {"ca_file": str(TLS / "ca.crt")})
    assert here == usual
