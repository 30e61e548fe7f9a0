"""Every object of a federation's overlays is one that a real API server takes, and every pod one that it lets in."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from kit.kube.manifests import WORKLOADS, copy_with_secrets, kubectl, of_kind, pod_of, title
from kit.kube.planes import AnyPlane
from muster.kube.objects import JsonObject, at, objects, text

CENTRE, CELL = "centre", "cell"
Manifests = dict[str, tuple[JsonObject, ...]]


@pytest.fixture(scope="module")
def manifests(plane: AnyPlane, tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    """Of both overlays: the cell's with the credential that the centre's made for it."""
    directory = tmp_path_factory.mktemp("federation")
    centre = copy_with_secrets(directory / CENTRE, CENTRE)
    given = str(centre / "secrets" / "cell-east" / "centre.creds")
    cell = copy_with_secrets(
        directory / CELL, CELL, changed=("k8s/overlays/centre/secrets/cell-east/centre.creds", given)
    )
    return {place.name: _rendered(plane, place) for place in (centre, cell)}


def _rendered(plane: AnyPlane, place: Path) -> tuple[JsonObject, ...]:
    return tuple(cast("Iterator[JsonObject]", yaml.safe_load_all(kubectl(plane, "kustomize", str(place)))))


@pytest.mark.parametrize("overlay", [CENTRE, CELL])
def test_the_api_server_takes_every_object_and_lets_every_pod_in(
    prepared: AnyPlane, manifests: Manifests, overlay: str
) -> None:
    found = manifests[overlay]
    said = kubectl(
        prepared, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        given=yaml.safe_dump_all(found),
    )  # fmt: skip
    assert "Warning" not in said
    assert len(re.findall(r"serverside-applied \(server dry run\)", said)) == len(found)
    pods = [pod_of(one) for one in of_kind(found, *WORKLOADS)]
    said = kubectl(prepared, "create", "--dry-run=server", "-f", "-", given=yaml.safe_dump_all(pods))
    assert len(re.findall(r"created \(server dry run\)", said)) == len(pods)


@pytest.mark.parametrize("overlay", [CENTRE, CELL])
def test_secrets_that_pods_mount_are_there_and_no_others(manifests: Manifests, overlay: str) -> None:
    found = manifests[overlay]
    there = {text(one, "metadata", "name") for one in of_kind(found, "Secret")}
    mounted = {
        text(volume, "secret", "secretName")
        for workload in of_kind(found, *WORKLOADS)
        for volume in objects(pod_of(workload), "spec", "volumes")
        if "secret" in volume
    }
    assert mounted == there


@pytest.mark.parametrize("overlay", [CENTRE, CELL])
def test_services_and_budgets_select_pods_that_there_are(manifests: Manifests, overlay: str) -> None:
    found = manifests[overlay]
    labels = [cast("JsonObject", at(pod_of(one), "metadata", "labels")) for one in of_kind(found, *WORKLOADS)]
    selectors = [(one, at(one, "spec", "selector")) for one in of_kind(found, "Service")]
    selectors += [(one, at(one, "spec", "selector", "matchLabels")) for one in of_kind(found, "PodDisruptionBudget")]
    selectors += [(one, at(one, "spec", "podSelector", "matchLabels")) for one in of_kind(found, "NetworkPolicy")]
    for one, selector in selectors:
        wanted = cast("JsonObject", selector or {})
        assert any(wanted.items() <= told.items() for told in labels), title(one)


def test_the_centre_has_no_rights_at_its_api_server_and_the_cell_those_of_agent_and_guard(manifests: Manifests) -> None:
    kinds = ("ServiceAccount", "ClusterRole", "Role")
    assert of_kind(manifests[CENTRE], *kinds) == []
    names = {text(one, "metadata", "name") for one in of_kind(manifests[CELL], *kinds)}
    assert names == {"muster-agent", "muster-guard"}
