"""Jobs whose groups have parts to play, over a fake API server: who serves ends with whom it serves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.kube.fake import RUN_S, FakeKubelet, fake_kube, node
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for, open_kubernetes_harness
from kit.stack.living import Harness, job
from muster.kube.objects import JsonObject, name_of, namespace_of, objects, strings, text
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.schemas.job import JobKind, JobSpec, Phase, TaskGroup

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

ENDS = frozenset({"launcher", "trainer"})
"""Groups whose programs end by themselves; those of others serve until they are told to stop."""


def group_of(pod: JsonObject) -> str:
    return strings(pod, "metadata", "labels")["muster.dev/group"]


def shaped(name: str, *groups: TaskGroup, kind: JobKind = JobKind.BATCH) -> JobSpec:
    return job(name).model_copy(update={"task_groups": groups, "kind": kind})


def group(name: str, replicas: int = 1, gpus: int = 0) -> TaskGroup:
    return TaskGroup(name=name, replicas=replicas, gpus=gpus, cpu_milli=100, memory_mib=64)


@pytest.fixture(scope="module")
def all_bound() -> list[JsonObject]:
    """Pods that were bound, as they were."""
    return []


@pytest.fixture
def bound(all_bound: list[JsonObject]) -> list[JsonObject]:
    """Those of one test."""
    all_bound.clear()
    return all_bound


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(all_bound: list[JsonObject], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for number in range(2):
            kube.add(NODES, node(f"gpu-{number}"))

        def plays_its_part(pod: JsonObject) -> None:
            all_bound.append(pod)
            if group_of(pod) in ENDS:
                patch: JsonObject = {"metadata": {"annotations": {RUN_S: "0.5"}}}
                kube.change(PODS, name_of(pod), patch, namespace_of(pod))

        kube.on_bind.append(plays_its_part)
        with FakeKubelet(kube):
            directory = Path(tmp_path_factory.mktemp("harness"))
            async with open_kubernetes_harness(directory / "state", kubeconfig_for(kube.url, directory)) as opened:
                yield opened


def variables(pod: JsonObject) -> set[str]:
    (container,) = objects(pod, "spec", "containers")
    return {text(one, "name") for one in objects(container, "env")}


async def test_an_mpi_job_ends_with_its_launcher(bound: list[JsonObject], harness: Harness) -> None:
    spec = shaped("mpi", group("launcher"), group("worker", 3, gpus=2), kind=JobKind.MPI)
    submitted = await harness.muster.submit(spec)
    (ended,) = await harness.ended([submitted.id])
    assert (ended.phase, ended.exit_code) == (Phase.SUCCEEDED, 0)
    launchers = [pod for pod in bound if group_of(pod) == "launcher"]
    assert len(bound) == 4
    assert ["OMPI_MCA_orte_default_hostfile" in variables(pod) for pod in launchers] == [True]
    hosts = strings(launchers[0], "metadata", "annotations")["muster.dev/hosts"]
    assert [line.split(".")[0] for line in hosts.splitlines()] == ["worker-0", "worker-1", "worker-2"]


async def test_a_job_with_parameter_servers_ends_with_its_workers(bound: list[JsonObject], harness: Harness) -> None:
    submitted = await harness.muster.submit(shaped("served", group("ps", 2), group("trainer", 2, gpus=1)))
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.SUCCEEDED
    assert len(bound) == 4
    assert all("TF_CONFIG" in variables(pod) for pod in bound)
