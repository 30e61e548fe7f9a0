"""compose/compose.yaml as text: what no engine is needed for to see."""

import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from muster.bus.settings import Settings
from muster.stack.declared import SERVICES
from muster.stack.parts import Layout
from muster.stack.provision import provision

COMPOSE = Path(__file__).parents[3] / "compose"
Service = dict[str, object]


def services() -> dict[str, Service]:
    return cast("dict[str, Service]", yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"])


def volumes(service: Service) -> dict[str, str]:
    """Named volumes by their place in the container."""
    places = {}
    for volume in cast("list[object]", service.get("volumes", [])):
        if isinstance(volume, dict):
            places[str(volume["target"])] = str(volume["source"])
        elif not (text := str(volume)).startswith("./"):
            source, target = text.split(":")[:2]
            places[target] = source
    return places


def test_every_service_of_the_stack_runs_in_a_container_with_its_own_part_alone() -> None:
    for name in SERVICES:
        service = services()[name]
        assert service["command"] == ["serve", name]
        assert volumes(service) == {"/var/lib/muster": name}


def test_init_writes_a_volume_for_every_part_and_the_image_holds_its_place(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, credentials_dir=tmp_path)
    layout = Layout(http_url="http://127.0.0.1:1", websocket_url="ws://127.0.0.1:2", nats_url="nats://127.0.0.1:3")
    parts = set(provision(tmp_path, layout, settings, now_s=1))
    mounted = {Path(place).name: source for place, source in volumes(services()["init"]).items()}
    assert set(mounted) == parts | {"nats-store", "grafana-data"}
    assert all(name == source for name, source in mounted.items())
    made = re.search(r"for part in (.*?); do", (COMPOSE / "Dockerfile").read_text().replace("\\\n", ""), re.DOTALL)
    assert made is not None
    of_federations = {"cell-east", "cell-west"}
    assert set(made[1].split()) == set(mounted) | of_federations


def test_the_keys_are_seen_by_init_alone() -> None:
    assert [name for name, service in services().items() if "keys" in volumes(service).values()] == ["init"]


@pytest.mark.parametrize("name", sorted(services()))
def test_every_container_is_confined(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    limits = cast("dict[str, dict[str, dict[str, object]]]", service["deploy"])["resources"]["limits"]
    assert set(limits) == {"memory", "pids"}


def test_images_are_pinned_and_ports_are_published_on_loopback_alone() -> None:
    for name, service in services().items():
        image = str(service["image"])
        is_pinned = re.search(r":v?\d+\.\d+\.\d+(-[a-z0-9.]+)?@sha256:[0-9a-f]{64}$", image)
        assert is_pinned or image.startswith("${MUSTER_IMAGE"), name
        assert all(str(port).startswith("127.0.0.1:") for port in cast("list[object]", service.get("ports", []))), name


def test_prometheus_reads_every_service() -> None:
    told = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())
    targets = {
        target for job in told["scrape_configs"] for given in job["static_configs"] for target in given["targets"]
    }
    assert {f"{name}:9100" for name in SERVICES} <= targets
    assert {str(target).split(":")[0] for target in targets} - {"localhost"} <= set(services())


def test_the_settings_are_settings() -> None:
    told = yaml.safe_load((COMPOSE / "settings.yaml").read_text())
    Settings.model_validate({**told, "state_dir": "/x", "credentials_dir": "/x"})


def folders(service: Service) -> dict[str, str]:
    """Folders beside the compose file, by their place in the container."""
    mounted = (str(volume).split(":") for volume in cast("list[object]", service["volumes"]) if isinstance(volume, str))
    return {words[1]: words[0].removeprefix("./") for words in mounted if words[0].startswith("./")}


def test_grafana_finds_its_dashboards_and_where_they_read() -> None:
    provisioning = COMPOSE / "grafana" / "provisioning"
    places = folders(services()["grafana"])
    assert places["/etc/grafana/provisioning"] == "grafana/provisioning"
    for file in (provisioning / "dashboards").glob("*.yaml"):
        for provider in yaml.safe_load(file.read_text())["providers"]:
            assert list((COMPOSE / places[provider["options"]["path"]]).glob("*.json"))
    sources = [
        source
        for file in (provisioning / "datasources").glob("*.yaml")
        for source in yaml.safe_load(file.read_text())["datasources"]
    ]
    assert {source["uid"] for source in sources} == {"prometheus", "jaeger"}
    assert {source["url"].split("/")[2].split(":")[0] for source in sources} <= set(services())


@pytest.mark.parametrize(
    ("service", "file"),
    [("prometheus", "/etc/prometheus/prometheus.yml"), ("otel-collector", "/etc/otelcol-contrib/config.yaml")],
)
def test_configuration_lies_where_the_container_is_told_to_look(service: str, file: str) -> None:
    told = services()[service]
    assert any(file in word for word in cast("list[str]", told["command"]))
    assert (COMPOSE / folders(told)[str(Path(file).parent)] / Path(file).name).is_file()


def override() -> dict[str, Service]:
    return cast("dict[str, Service]", yaml.safe_load((COMPOSE / "compose.kubernetes.yaml").read_text())["services"])


def test_against_a_real_cluster_only_agent_and_guard_see_the_kubeconfig() -> None:
    mounting = {
        name: volume
        for name, service in override().items()
        for volume in cast("list[object]", service["volumes"])
        if isinstance(volume, dict)
    }
    assert set(mounting) == {"agent", "guard"}
    assert {volume["target"] for volume in mounting.values()} == {"/etc/muster/kubeconfig"}
    assert all(volume["read_only"] for volume in mounting.values())


def test_against_a_real_cluster_the_settings_name_that_kubeconfig() -> None:
    mounted = folders(override()["init"])
    assert mounted == {"/etc/muster/settings.yaml": "settings.kubernetes.yaml"}
    told = yaml.safe_load((COMPOSE / "settings.kubernetes.yaml").read_text())
    settings = Settings.model_validate({**told, "state_dir": "/x", "credentials_dir": "/x"})
    assert settings.kubernetes is not None
    assert str(settings.kubernetes.kubeconfig) == "/etc/muster/kubeconfig"
    assert settings.fabrics == (), "a simulated fabric moves nothing on real nodes"


def test_the_override_changes_containers_that_there_are_and_nothing_of_how_they_are_confined() -> None:
    for name, changed in override().items():
        assert set(changed) == {"volumes"}
        assert name in services()
