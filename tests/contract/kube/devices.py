"""Kinds of `resource.k8s.io` in whichever version a server has: to Muster all of them are v1.

Inherited by fake servers of each version and by real ones. Fixtures to be given: `kube` (a KubeConnection), `space` (a
namespace) and `version` (what the server serves).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kit.waiting import until
from muster.agent.core.kubernetes.claims import FINALIZER, allocated, claim_manifest, project_claim, protection
from muster.agent.core.kubernetes.slices import Place, project_slice
from muster.agent.core.workloads.claim_templates import gpus_of
from muster.kube.connection import KubeConnection
from muster.kube.errors import ConflictError, NotFoundError
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, mapping, name_of, objects, text
from muster.kube.reflector import Reflector
from muster.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from muster.kube.shapes import Patch, Selection
from muster_tools.local_kubernetes.nodes import DRIVER, NodeShape, device_class, device_uuid, resource_slice

V1 = "resource.k8s.io/v1"
POD: JsonObject = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


_WANTED: JsonObject = {
    "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.example"}}]}}
}


@asynccontextmanager
async def made(
    kube: KubeConnection, resource: Resource, body: JsonObject, space: str = ""
) -> AsyncIterator[JsonObject]:
    """While the block runs."""
    said = await kube.create(resource, body, namespace=space)
    try:
        yield said
    finally:
        await kube.delete(resource, name_of(said), namespace=space)


async def claim_of_a_pod(kube: KubeConnection, space: str) -> JsonObject:
    """For two GPUs of a pod that is there."""
    pod = await kube.create(PODS, POD, namespace=space)
    uid = text(pod, "metadata", "uid")
    body = claim_manifest("c", namespace=space, labels={}, pod=("p", uid), device_class="gpu.example", count=2)
    return await kube.create(RESOURCE_CLAIMS, body, namespace=space)


@asynccontextmanager
async def followed(
    kube: KubeConnection, resource: Resource, space: str, project: Callable[[JsonObject], object]
) -> AsyncIterator[dict[str, object]]:
    """Views by name, kept up by a watch."""
    seen: dict[str, object] = {}

    async def take(changes: list[Change[object]]) -> None:
        seen.update({change.key.name: change.now for change in changes})

    select = Selection(space) if resource.namespaced else Selection()
    reflector = Reflector(kube, resource, project=project, on_changes=take, select=select, compare_s=None)
    running = asyncio.create_task(reflector.run())
    try:
        await reflector.wait_synced()
        yield seen
    finally:
        running.cancel()
        await asyncio.wait({running})


class DeviceKindsContract:
    """What Muster relies on."""

    async def test_a_claim_is_written_and_read_as_v1(self, kube: KubeConnection, space: str, version: str) -> None:
        said = await claim_of_a_pod(kube, space)
        assert kube.versioned.version == version
        assert said["apiVersion"] == V1
        [request] = objects(said, "spec", "devices", "requests")
        assert {key: request[key] for key in ("name", "exactly")} == request
        assert mapping(request, "exactly").items() >= {"deviceClassName": "gpu.example", "count": 2}.items()
        assert await kube.get(RESOURCE_CLAIMS, "c", namespace=space) == said
        page = await kube.list_page(RESOURCE_CLAIMS, select=Selection(space))
        assert [objects(one, "spec", "devices", "requests") for one in page.items] == [[request]]

    async def test_a_claim_is_allocated_watched_and_given_back(self, kube: KubeConnection, space: str) -> None:
        places = [Place(DRIVER, "n1", f"gpu-{number}") for number in (3, 5)]
        async with followed(kube, RESOURCE_CLAIMS, space, project_claim) as seen:
            claim = await claim_of_a_pod(kube, space)
            uid = project_claim(claim).owner
            body = allocated(claim, node="n1", pod=("p", uid), places=places)
            await kube.replace(RESOURCE_CLAIMS, "c", body, namespace=space, subresource="status")
            with pytest.raises(ConflictError):  # at the version that was read
                await kube.replace(RESOURCE_CLAIMS, "c", body, namespace=space, subresource="status")
            now = await kube.get(RESOURCE_CLAIMS, "c", namespace=space)
            view = project_claim(now)
            assert (view.places, view.node, view.reserved) == (tuple(places), "n1", (uid,))
            await until(lambda: seen.get("c") == view)
            assert now["spec"] == claim["spec"], "nothing that was asked is lost on the way"
            patch = protection(now, wanted=False)
            assert patch is not None
            freed = await kube.patch(RESOURCE_CLAIMS, "c", patch, kind=Patch.MERGE, namespace=space)
            assert FINALIZER not in text(freed, "metadata")
            await kube.delete(RESOURCE_CLAIMS, "c", namespace=space)
            await until(lambda: seen["c"] is None)

    async def test_devices_of_slices_are_seen(self, kube: KubeConnection) -> None:
        body = dict(resource_slice(7, NodeShape(gpus=2), prefix="contract"))
        async with (
            followed(kube, RESOURCE_SLICES, "", project_slice) as seen,
            made(kube, RESOURCE_SLICES, body) as said,
        ):
            assert said["apiVersion"] == V1
            view = project_slice(said)
            assert [one.uuid for one in view.devices] == [device_uuid(7, 0), device_uuid(7, 1)]
            assert {(one.kind, one.model, one.memory_mib) for one in view.devices} == {
                ("gpu", "NVIDIA-H100-80GB-HBM3", 80 * 1024)
            }
            await until(lambda: seen.get(name_of(said)) == view)
            again = await kube.replace(RESOURCE_SLICES, name_of(said), said)
            assert again["spec"] == said["spec"]

    async def test_templates_say_how_many_gpus_they_ask_for(self, kube: KubeConnection, space: str) -> None:
        request: JsonObject = {"name": "gpus", "exactly": {"deviceClassName": "gpu.example", "count": 4}}
        spec: JsonObject = {"spec": {"devices": {"requests": [request]}}}
        body: JsonObject = {"apiVersion": V1, "metadata": {"name": "four"}, "spec": spec}
        body["kind"] = RESOURCE_CLAIM_TEMPLATES.kind
        async with (
            followed(kube, RESOURCE_CLAIM_TEMPLATES, space, lambda raw: gpus_of(_asked(raw), "gpu.example")) as seen,
            made(kube, RESOURCE_CLAIM_TEMPLATES, body, space) as said,
        ):
            assert gpus_of(_asked(said), "gpu.example") == 4
            await until(lambda: seen.get("four") == 4)

    async def test_device_classes_are_as_they_were_written(self, kube: KubeConnection) -> None:
        body = dict(device_class("contract.example"))
        async with made(kube, DEVICE_CLASSES, body) as said:
            assert said["apiVersion"] == V1
            assert said["spec"] == body["spec"]

    async def test_what_is_not_there_is_not_asked_for_in_another_version(
        self, kube: KubeConnection, space: str
    ) -> None:
        await kube.list_page(RESOURCE_CLAIMS)
        before = kube.requests_sent
        with pytest.raises(NotFoundError, match="nobody") as missing:
            await kube.get(RESOURCE_CLAIMS, "nobody", namespace=space)
        assert not missing.value.unserved
        with pytest.raises(NotFoundError, match="nowhere") as missing:
            await kube.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, **_WANTED}, namespace="nowhere")
        assert not missing.value.unserved
        assert kube.requests_sent == before + 2

    async def test_a_version_that_is_not_served_is_known_from_an_object_that_is_not_there(
        self, kube: KubeConnection
    ) -> None:
        for path in ("/apis/resource.k8s.io/v1alpha9/resourceclaims", "/apis/no.such/v1/things"):
            with pytest.raises(NotFoundError) as unserved:
                await kube.get_path(path)
            assert unserved.value.unserved


def _asked(template: JsonObject) -> JsonObject:
    return mapping(template, "spec", "spec")
