"""k8s/overlays/centre and cell as text, and what is made for them: what no API server is needed for to see."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml

from muster.bus.settings import Settings
from muster.bus.streams import plan
from muster.stack.cells import LEAF_USUAL_PORT
from muster.stack.declared import SERVICES, services_of
from muster.stack.in_kubernetes import secret_of, write
from muster.stack.parts import Layout

OVERLAYS = Path(__file__).parents[3] / "k8s" / "overlays"
LAYOUT = Layout(
    http_url="https://muster.example", websocket_url="wss://muster.example/bus", nats_url="nats://x:4222", flat=True
)
NOW_S = 1_700_000_000
FEDERATED = ("centre", "cell")


def told(path: str) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", list(yaml.safe_load_all((OVERLAYS / path).read_text(encoding="utf-8"))))


def settings(overlay: str, *, credentials: Path | None = None) -> Settings:
    (found,) = told(f"{overlay}/settings.yaml")
    if credentials is not None:
        centre = cast("dict[str, dict[str, object]]", found["federation"])["centre"]
        centre["credentials"] = str(credentials)
    return Settings.model_validate({**found, "state_dir": "/x", "credentials_dir": "/x"})


def left_out(overlay: str) -> set[str]:
    """The Deployments that the overlay takes away."""
    patches = cast("list[dict[str, Mapping[str, str]]]", told(f"{overlay}/kustomization.yaml")[0]["patches"])
    targets = [patch["target"] for patch in patches if "$patch: delete" in str(patch.get("patch", ""))]
    return {name for one in targets if "Deployment" in one["kind"] for name in one["name"].split("|")}


@pytest.mark.parametrize("overlay", FEDERATED)
def test_an_overlay_runs_the_services_of_its_role(overlay: str) -> None:
    assert set(SERVICES) - left_out(overlay) == set(services_of(settings(overlay)))


def test_each_service_runs_at_the_centre_or_in_the_cell() -> None:
    assert left_out("centre") | left_out("cell") >= set(SERVICES)
    assert not left_out("centre") & left_out("cell")


def test_secrets_are_made_of_what_runs_and_a_cells_credential_goes_to_its_brokers_alone(tmp_path: Path) -> None:
    def written(overlay: str, of: Settings) -> set[str]:
        return set(write(tmp_path / overlay, LAYOUT, of, now_s=NOW_S))

    centre = settings("centre")
    assert written("centre", centre) == {secret_of(part) for part in (*services_of(centre), "bus", "nats", "redis")}
    given = tmp_path / "centre" / "cell-east" / "centre.creds"
    cell = settings("cell", credentials=given)
    assert written("cell", cell) == {secret_of(part) for part in (*services_of(cell), "bus", "nats")}
    holders = {path.parent.name for path in (tmp_path / "cell").rglob("*") if path.name == "centre.creds"}
    assert holders == {"nats"}
    assert (tmp_path / "cell" / "nats" / "centre.creds").read_text() == given.read_text()
    assert "centre.creds" in (tmp_path / "cell" / "kustomization.yaml").read_text()
    assert "cell-" not in (tmp_path / "centre" / "kustomization.yaml").read_text()


def test_the_brokers_of_centre_and_cell_have_different_names(tmp_path: Path) -> None:
    """A broker refuses leaf nodes of a cluster that is called like its own."""

    def name(overlay: str, of: Settings) -> str:
        write(tmp_path / overlay, LAYOUT, of, now_s=NOW_S)
        config = (tmp_path / overlay / "nats" / "nats-server.conf").read_text()
        found = re.search(r'cluster \{\n  name: "([^"]+)"', config)
        assert found is not None
        return found[1]

    names = [name("centre", settings("centre"))]
    given = tmp_path / "centre" / "cell-east" / "centre.creds"
    names.append(name("cell", settings("cell", credentials=given)))
    assert len(set(names)) == 2


def test_a_cell_goes_out_to_where_the_centre_takes_leaf_nodes() -> None:
    service, coming_in = told("centre/leaf.yaml")
    (going_out,) = told("cell/link.yaml")
    assert cast("dict[str, list[dict[str, object]]]", service["spec"])["ports"][0]["port"] == LEAF_USUAL_PORT
    for policy, way in ((coming_in, "ingress"), (going_out, "egress")):
        (rule,) = cast("dict[str, list[dict[str, object]]]", policy["spec"])[way]
        assert rule == {"ports": [{"protocol": "TCP", "port": LEAF_USUAL_PORT}]}
    centre = settings("cell").federation.centre
    assert centre is not None
    assert centre.url.endswith(f":{LEAF_USUAL_PORT}")


@pytest.mark.parametrize("overlay", FEDERATED)
def test_servers_are_as_many_as_copies_and_their_disks_hold_what_streams_may_grow_to(overlay: str) -> None:
    (servers,) = told(f"{overlay}/nats.yaml")
    of = settings(overlay)
    spec = cast("dict[str, object]", servers["spec"])
    assert spec["replicas"] == of.bus.replicas
    text = (OVERLAYS / overlay / "nats.yaml").read_text() + (OVERLAYS.parent / "base" / "nats.yaml").read_text()
    size = re.search(r"requests: \{storage: (\d+)Gi\}", text)
    assert size is not None
    streams = sum(cast("int", stream.config["max_bytes"]) for stream in plan(of))
    assert streams < 0.75 * int(size[1]) * 1024**3 * 0.97, "as of the other overlays"
