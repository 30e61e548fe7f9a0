"""A failing pre-flight on Kubernetes: init containers, termination messages and gates, through a whole stack."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kit.kube.fake import RUN_S, FakeKube, FakeKubelet, fake_kube, node
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for
from kit.stack.living import Harness, job, open_harness, options
from muster.kube.objects import JsonObject, name_of, namespace_of, objects, text
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.schemas.facts.job import JobPlaced, JobRunning
from muster.schemas.facts.operations import PreflightFailed
from muster.schemas.job import Phase

BAD = "gpu-0"


@pytest_asyncio.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for number in range(4):
            kube.add(NODES, node(f"gpu-{number}"))

        def runs_shortly(pod: JsonObject) -> None:
            patch: JsonObject = {"metadata": {"annotations": {RUN_S: "0.3"}}}
            kube.change(PODS, name_of(pod), patch, namespace_of(pod))

        kube.on_bind.append(runs_shortly)
        with FakeKubelet(kube, bad_nodes=frozenset({BAD})):
            yield kube


@pytest_asyncio.fixture
async def harness(kube: FakeKube, tmp_path: Path) -> AsyncIterator[Harness]:
    start = options(tmp_path / "state")
    kubernetes = {
        "kubeconfig": str(kubeconfig_for(kube.url, tmp_path)), "image": "busybox", "devices": "device-plugin",
        "own_nodes": False, "kept_s": 30.0,
    }  # fmt: skip
    preflight = {"default": "quick", "image": "tools:1"}
    settings = {**start.settings, "kubernetes": kubernetes, "preflight": preflight}
    async with open_harness(start.model_copy(update={"settings": settings})) as harness:
        yield harness


async def test_a_gang_that_fails_on_a_bad_node_begins_nowhere_before_it_runs_elsewhere(
    kube: FakeKube, harness: Harness
) -> None:
    submitted = await harness.muster.submit(job("gang", gpus=8, replicas=3, retries=0))
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.SUCCEEDED, ended
    facts = [fact for fact in await harness.facts() if fact.subject_id == submitted.id]
    failed = [fact.payload for fact in facts if isinstance(fact.payload, PreflightFailed)]
    placed = [fact.payload for fact in facts if isinstance(fact.payload, JobPlaced)]
    assert [one.nodes for one in failed] == [(BAD,)], "three nodes out of four"
    assert len(placed) == 2
    assert BAD not in {slot.node for slot in placed[-1].slots}
    assert [fact.payload.preflight for fact in facts if isinstance(fact.payload, JobRunning)] == ["quick"]
    assert await harness.violations([submitted.id]) == []
    opened = {one.name for one in kube.asked("patch", "pods")}
    assert opened == {f"mj-{submitted.id.lower()}-{placed[-1].attempt}-0-{replica}" for replica in range(3)}
    images = {text(one, "image") for pod in kube.store.all(PODS) for one in objects(pod, "spec", "initContainers")}
    assert images == {"tools:1"}
