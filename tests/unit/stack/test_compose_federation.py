"""compose/compose.federation.yaml as text: two cells beside the stack of compose.yaml, which becomes their centre."""

import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from muster.bus.settings import Settings
from muster.stack.cells import LEAF_USUAL_PORT
from muster.stack.declared import SERVICES, services_of
from muster.stack.parts import TOGETHER, Layout
from muster.stack.provision import provision

COMPOSE = Path(__file__).parents[3] / "compose"
CELLS = ("east", "west")
LAYOUT = Layout(http_url="http://127.0.0.1:1", websocket_url="ws://127.0.0.1:2", nats_url="nats://127.0.0.1:3")
Service = dict[str, object]


def told(name: str = "compose.federation.yaml") -> dict[str, dict[str, Service]]:
    return cast("dict[str, dict[str, Service]]", yaml.safe_load((COMPOSE / name).read_text(encoding="utf-8")))


def services() -> dict[str, Service]:
    return told()["services"]


def places(service: Service) -> dict[str, str]:
    """Where named volumes and files are mounted: target by source."""
    found = {}
    for volume in cast("list[object]", service.get("volumes", [])):
        if isinstance(volume, dict):
            found[str(volume["source"])] = str(volume["target"])
        else:
            source, target = str(volume).split(":")[:2]
            found[source] = target
    return found


def settings(name: str, *, credentials: Path | None = None) -> Settings:
    found = cast("dict[str, dict[str, dict[str, object]]]", told(f"settings.{name}.yaml"))
    if credentials is not None:
        found["federation"]["centre"]["credentials"] = str(credentials)
    return Settings.model_validate({**found, "state_dir": "/x", "credentials_dir": "/x"})


def test_the_centre_keeps_its_own_services_and_the_cells_have_the_others() -> None:
    away = {name for name, service in services().items() if service.get("profiles") == ["never"]}
    simulators = {"fabric-simulator", "dcgm-simulator"}
    assert set(SERVICES) - away == set(services_of(settings("centre")))
    assert away - simulators == set(services_of(settings("east"))) == set(services_of(settings("west")))
    assert settings("centre").clusters == CELLS


@pytest.mark.parametrize("cell", CELLS)
def test_what_init_writes_lies_where_the_cells_containers_look(cell: str, tmp_path: Path) -> None:
    centre = tmp_path / "centre"
    provision(centre, LAYOUT, settings("centre"), now_s=1)
    given = centre / f"cell-{cell}" / "centre.creds"
    wanted = settings(cell, credentials=given)
    assert wanted.cluster == cell
    provision(tmp_path / cell, LAYOUT, wanted, now_s=1)
    environment = cast("dict[str, str]", services()[cell]["environment"])
    state = tmp_path / cell / Path(environment["MUSTER_STATE_DIR"]).name
    assert state.name == TOGETHER
    held = {file.stem for file in (state / "creds").glob("*.creds")}
    assert held == {*services_of(wanted), "reader", "monitor", "lease"}
    for name in (f"bus-{cell}", f"exporters-{cell}"):
        of = cast("dict[str, str]", services()[name]["environment"])
        assert (tmp_path / cell / Path(of["MUSTER_STATE_DIR"]).relative_to("/state") / "settings.json").is_file()
        assert of["MUSTER_CREDENTIALS_DIR"] == f"{of['MUSTER_STATE_DIR']}/creds"
    assert (tmp_path / cell / "nats" / "centre.creds").read_text() == given.read_text()


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_given_its_credential_and_sees_its_own_broker_alone(cell: str) -> None:
    found = services()
    assert places(found["init"])[f"given-{cell}"] == f"/state/cell-{cell}"
    assert places(found[f"init-{cell}"])[f"given-{cell}"] == "/state/given"
    centre = settings(cell).federation.centre
    assert centre is not None
    assert str(centre.credentials) == "/state/given/centre.creds"
    assert centre.url == f"nats-leaf://centre:{LEAF_USUAL_PORT}"
    assert cast("dict[str, dict[str, object]]", found["nats"]["networks"])["link"] == {"aliases": ["centre"]}
    broker = cast("dict[str, object]", found[f"nats-{cell}"]["networks"])
    assert broker == {cell: {"aliases": ["nats"]}, "link": {}}
    for name in (cell, f"bus-{cell}"):
        assert found[name]["networks"] == [cell]
    assert found[f"exporters-{cell}"]["networks"] == {cell: {"aliases": ["dcgm-simulator"]}}
    assert cast("dict[str, object]", told()["networks"][cell])["internal"] is True


def test_every_container_is_confined_and_its_image_is_that_of_the_stack() -> None:
    images = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    for name, service in services().items():
        if "image" not in service:
            continue  # of compose.yaml, which says the rest of it
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "ports" not in service, name
        assert f"image: {service['image']}\n" in images, name
        limits = cast("dict[str, dict[str, dict[str, object]]]", service["deploy"])["resources"]["limits"]
        assert set(limits) == {"memory", "pids"}, name


def test_the_image_holds_the_places_of_what_the_centre_gives() -> None:
    made = re.search(r"for part in (.*?); do", (COMPOSE / "Dockerfile").read_text().replace("\\\n", ""), re.DOTALL)
    assert made is not None
    assert {f"cell-{name}" for name in settings("centre").clusters} <= set(made[1].split())
