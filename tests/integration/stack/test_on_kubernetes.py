"""A stack over a fake API server: from `POST /v1/jobs` to pods that ran, and what the log says of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kit.kube.fake import RUN_S, FakeKube, FakeKubelet, fake_kube, node
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for, open_kubernetes_harness
from kit.stack.living import Harness, job
from muster.kube.objects import JsonObject, name_of, namespace_of, objects, text
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.schemas.job import Phase


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
        with FakeKubelet(kube):
            yield kube


@pytest_asyncio.fixture
async def harness(kube: FakeKube, tmp_path: Path) -> AsyncIterator[Harness]:
    path = kubeconfig_for(kube.url, tmp_path)
    async with open_kubernetes_harness(tmp_path / "state", path, kept_s=0.0) as harness:
        yield harness


async def test_jobs_become_pods_that_run_and_end(kube: FakeKube, harness: Harness) -> None:
    singles = [await harness.muster.submit(job(f"single-{number}")) for number in range(6)]
    gang = await harness.muster.submit(job("gang", gpus=8, replicas=3))
    ended = await harness.ended([one.id for one in (*singles, gang)])
    assert {one.phase for one in ended} == {Phase.SUCCEEDED}
    assert await harness.violations([one.id for one in ended]) == []
    binds = kube.asked("create", "pods/binding")
    assert len(binds) == len({one.name for one in binds}) == 9
    assert {one.namespace for one in binds} == {NAMESPACE}
    assert kube.count("list", "pods") == 0, "pods come by a streaming list"
    assert text(kube.log[0].query, "watch") in ("", "1")


async def test_a_user_finds_the_pods_of_a_job_that_runs(kube: FakeKube, harness: Harness) -> None:
    kube.on_bind.clear()  # pods run until they are ended
    gang = await harness.muster.submit(job("gang", gpus=1, replicas=2, workdir="/data"))
    await harness.job_that(gang.id, lambda view: view.phase is Phase.RUNNING)
    found = await harness.muster.pods(gang.id)
    made = {name_of(pod): pod for pod in kube.store.all(PODS, NAMESPACE)}
    assert (found.backend, found.namespace, found.attempt) == ("kubernetes", NAMESPACE, 1)
    assert {pod.name for pod in found.pods} == set(made)
    assert {text(objects(pod, "spec", "containers")[0], "workingDir") for pod in made.values()} == {"/data"}
    assert {text(objects(pod, "spec", "containers")[0], "name") for pod in made.values()} == {found.container}
    await harness.muster.cancel(gang.id)
    await harness.ended([gang.id])
