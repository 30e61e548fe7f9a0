"""A stack over a fake API server whose nodes give parts of GPUs: time slices, that the kubelet hands out."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.kube.fake import RUN_S, FakeKube, FakeKubelet, fake_kube, node
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for, open_kubernetes_harness
from kit.stack.living import Harness, job
from muster.kube.objects import JsonObject, name_of, namespace_of, objects, strings
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.schemas.job import JobSpec, Phase, TaskGroup

PART = "nvidia.com/gpu.shared"
SHARING = {"mode": "time-slicing", "profiles": {PART: 250}}


def sharing_node(name: str, parts: int) -> JsonObject:
    """A node that has no whole GPU."""
    made = node(name)
    for offered in ("capacity", "allocatable"):
        have = made["status"][offered]  # type: ignore[index]
        have.pop("nvidia.com/gpu", None)
        have[PART] = str(parts)
    return made


def share(name: str) -> JobSpec:
    spec = job(name)
    return spec.model_copy(update={"task_groups": (TaskGroup(gpu_milli=200, cpu_milli=100, memory_mib=64),)})


@pytest.fixture
def bound() -> list[JsonObject]:
    """Pods that were bound, as they were."""
    return []


@pytest_asyncio.fixture
async def kube(bound: list[JsonObject]) -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        kube.add(NODES, sharing_node("shared-0", 8))

        def runs_shortly(pod: JsonObject) -> None:
            bound.append(pod)
            patch: JsonObject = {"metadata": {"annotations": {RUN_S: "0.5"}}}
            kube.change(PODS, name_of(pod), patch, namespace_of(pod))

        kube.on_bind.append(runs_shortly)
        with FakeKubelet(kube):
            yield kube


@pytest_asyncio.fixture
async def harness(kube: FakeKube, tmp_path: Path) -> AsyncIterator[Harness]:
    path = kubeconfig_for(kube.url, tmp_path)
    async with open_kubernetes_harness(tmp_path / "state", path, sharing=SHARING) as harness:
        yield harness


async def test_parts_are_asked_of_the_plugin_and_whole_gpus_are_not_promised(
    bound: list[JsonObject], harness: Harness
) -> None:
    whole = await harness.muster.submit(job("whole", gpus=1))
    shares = [await harness.muster.submit(share(f"share-{number}")) for number in range(12)]
    ended = await harness.ended([one.id for one in shares])
    assert {one.phase for one in ended} == {Phase.SUCCEEDED}
    (description,) = {
        (len(fact.payload.gpu_uuids), fact.payload.share_milli, fact.payload.parts_only)  # type: ignore[attr-defined]
        for fact in await harness.facts()
        if (fact.kind, fact.name) == ("node", "joined")
    }
    assert description == (2, (250,), True)
    assert len(bound) == 12
    for pod in bound:
        (container,) = objects(pod, "spec", "containers")
        limits = strings(container, "resources", "limits")
        assert (limits.get(PART), limits.get("nvidia.com/gpu")) == ("1", None)
    assert (await harness.muster.get(whole.id)).phase is Phase.QUEUED
