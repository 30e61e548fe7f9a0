"""Pods that others make begin only where the nodes of their job passed: each kind of object, through a whole stack."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from kit.kube.fake import RUN_S, FakeKube, FakeKubelet, fake_kube, node
from kit.kube.objects import SPACE, asking_pod, batch_job, condition, job_set, mpi_job, note
from kit.kube.operators import operating
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for, open_kubernetes_harness
from kit.stack.living import Harness
from kit.waiting import until
from muster.agent.core.kubernetes.names import CHECK_POD_LABEL
from muster.checks.report import dump
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, name_of, namespace_of, objects, strings, text, uid_of
from muster.kube.resources import JOB_SETS, JOBS, MPI_JOBS, NAMESPACES, NODES, PODS, Resource
from muster.kube.workload_labels import JOB_ID, PHASE
from muster.schemas.facts.job import JobPlaced
from muster.schemas.facts.operations import CheckOutcome, CheckResult, PreflightFailed, PreflightPlan

pytestmark = pytest.mark.asyncio(loop_scope="module")

BAD = "gpu-0"
KINDS = {JOB_SETS: job_set("set"), MPI_JOBS: mpi_job("ring")}


class CheckingKubelet(FakeKubelet):
    """Its pods that only check say what they found as they end."""

    def _terminate(self, pod: JsonObject, code: int) -> None:
        if CHECK_POD_LABEL not in strings(pod, "metadata", "labels"):
            super()._terminate(pod, code)
            return
        (container,) = objects(pod, "spec", "containers")
        plan = next(
            text(one, "value") for one in objects(container, "env") if text(one, "name") == "MUSTER_PREFLIGHT_PLAN"
        )
        outcome = CheckOutcome.FAIL if text(pod, "spec", "nodeName") == BAD else CheckOutcome.PASS
        checks = PreflightPlan.model_validate_json(plan).checks if plan else ()
        said = dump([CheckResult(node="?", check=one.check, outcome=outcome) for one in checks])
        over = {"exitCode": 0, "finishedAt": self.kube.store.stamp(), "message": said}
        self.used[text(pod, "spec", "nodeName")].pop(uid_of(pod), None)
        self._say(pod, {"phase": "Succeeded", "containerStatuses": [{"name": "checks", "state": {"terminated": over}}]})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[FakeKube, Harness]]:
    directory = tmp_path_factory.mktemp("adopted")
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(fake_kube())
        for kind in (JOB_SETS, MPI_JOBS):
            kube.register(kind)
        for name in (SPACE, NAMESPACE):
            kube.add(NAMESPACES, {"metadata": {"name": name}})
        for number in range(4):
            kube.add(NODES, node(f"gpu-{number}"))

        def runs_shortly(pod: JsonObject) -> None:
            patch: JsonObject = {"metadata": {"annotations": {RUN_S: "0.2"}}}
            kube.change(PODS, name_of(pod), patch, namespace_of(pod))

        kube.on_bind.append(runs_shortly)
        stack.enter_context(CheckingKubelet(kube))
        path = kubeconfig_for(kube.url, directory)
        preflight = {"default": "quick", "image": "tools:1", "gpus_least": 0}
        harness = await stack.enter_async_context(
            open_kubernetes_harness(directory / "state", path, preflight=preflight)
        )
        connection = await stack.enter_async_context(await KubeConnection.open(kubeconfig=path, user_agent="operators"))
        await stack.enter_async_context(operating(connection, JOBS, JOB_SETS, MPI_JOBS))
        yield kube, harness


def find(kube: FakeKube, resource: Resource, name: str) -> JsonObject:
    return next((one for one in kube.store.all(resource) if name_of(one) == name), {})


def bound(kube: FakeKube) -> list[str]:
    """Namespaces of pods that were bound, in their order."""
    return [one.namespace for one in kube.asked("create", "pods/binding")]


async def test_a_job_begins_nowhere_before_its_nodes_passed(shared: tuple[FakeKube, Harness]) -> None:
    kube, harness = shared
    kube.add(JOBS, batch_job("sweep", pods=3, gpus=8))
    await until(lambda: note(find(kube, JOBS, "sweep"), PHASE) == "succeeded")
    job_id = note(find(kube, JOBS, "sweep"), JOB_ID)
    facts = [fact for fact in await harness.facts() if fact.subject_id == job_id]
    failed = [fact.payload.nodes for fact in facts if isinstance(fact.payload, PreflightFailed)]
    placed = [fact.payload for fact in facts if isinstance(fact.payload, JobPlaced)]
    assert (failed, len(placed)) == ([(BAD,)], 2)
    assert BAD not in {slot.node for slot in placed[-1].slots}
    assert bound(kube) == [*6 * [NAMESPACE], *3 * [SPACE]], "three pods that check, twice, then its own, once"
    assert await harness.violations([job_id]) == []


@pytest.mark.parametrize("resource", KINDS, ids=lambda kind: kind.kind)
async def test_so_do_objects_of_other_kinds(shared: tuple[FakeKube, Harness], resource: Resource) -> None:
    kube, harness = shared
    kube.log.clear()
    name = name_of(kube.add(resource, KINDS[resource]))
    await until(lambda: note(find(kube, resource, name), PHASE) == "succeeded")
    spaces = bound(kube)
    half = len(spaces) // 2
    assert spaces == [*half * [NAMESPACE], *half * [SPACE]]
    assert await harness.violations([note(find(kube, resource, name), JOB_ID)]) == []


async def test_so_do_ordinary_pods(shared: tuple[FakeKube, Harness]) -> None:
    kube, _ = shared
    kube.log.clear()
    for number in range(2):
        kube.add(PODS, asking_pod(f"pair-{number}", gang="pair", size=2))
    await until(lambda: text(condition(find(kube, PODS, "pair-0")), "reason") == "Succeeded")
    assert bound(kube) == [*2 * [NAMESPACE], *2 * [SPACE]]
