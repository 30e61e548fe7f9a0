"""Objects on a real API server, with the real Job controller and stand-ins for the JobSet and MPI operators.

Every object of examples/kubernetes is applied with kubectl, runs, and is cancelled by deleting it.
"""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from kit.kube.agents import WAIT_S, Agent, open_agent
from kit.kube.definitions import define
from kit.kube.objects import asking_pod, batch_job, condition, muster_job, note
from kit.kube.operators import operating
from kit.kube.planes import AnyPlane
from kit.waiting import until_async
from muster.kube.objects import JsonObject, integer, mapping, name_of, objects, text, uid_of
from muster.kube.resources import EVENTS, JOB_SETS, JOBS, MPI_JOBS, MUSTER_JOBS, PODS, Resource
from muster.kube.shapes import Patch, Selection
from muster.kube.workload_labels import JOB_ID, PHASE, QUEUE
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.labels import EXIT_CODE, RUN_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "musterjob": (MUSTER_JOBS, "train", 2),
    "musterjob-parameter-servers": (MUSTER_JOBS, "ranking", 6),
    "pods": (PODS, "pair-0", 2),
    "job": (JOBS, "sweep", 4),
    "jobset": (JOB_SETS, "pretrain", 5),
    "mpijob": (MPI_JOBS, "allreduce", 3),
}
"""By file: its object (of several, the first), and how many pods it means."""
ENDS = {"muster.dev/run-s": "0.5", "muster.dev/exit-code": "0"}
"""Annotations by which KWOK ends a pod."""
JOB_ENDS = {RUN_S: "0.5", EXIT_CODE: "0"}
"""Labels of a job whose pods have them."""


class Space:
    """An agent's namespace, through kubectl and through the API."""

    def __init__(self, plane: AnyPlane, agent: Agent) -> None:
        self.agent = agent
        self._argv = [str(plane.program("kubectl")), "--kubeconfig", str(plane.kubeconfig())]

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*self._argv, "-n", self.agent.namespace, *words],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, body: JsonObject) -> None:
        """The object, in this namespace and its queue."""
        metadata = mapping(body, "metadata")
        metadata.pop("namespace", None)
        if QUEUE in mapping(metadata, "labels"):
            mapping(metadata, "labels")[QUEUE] = self.agent.namespace
        self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    async def get(self, resource: Resource, name: str) -> JsonObject:
        return await self.agent.kube.get(resource, name, namespace=self.agent.namespace)

    async def shows(self, resource: Resource, name: str, phase: str) -> JsonObject:
        """Wait until the object shows this phase."""

        async def shown() -> bool:
            return phase_of(resource, await self.get(resource, name)) == phase

        await until_async(shown, patience_s=WAIT_S)
        return await self.get(resource, name)

    async def events(self, name: str) -> list[str]:
        select = Selection(self.agent.namespace, fields=f"involvedObject.name={name}")
        return [text(one, "reason") for one in (await self.agent.kube.list_page(EVENTS, select=select)).items]


def phase_of(resource: Resource, found: JsonObject) -> str:
    if resource == MUSTER_JOBS:
        return text(found, "status", "phase")
    return text(condition(found), "reason").lower() if resource == PODS else note(found, PHASE)


def job_of(resource: Resource, found: JsonObject) -> str:
    if resource == MUSTER_JOBS:
        return text(found, "status", "jobId")
    return text(condition(found), "message").partition(":")[0] if resource == PODS else note(found, JOB_ID)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def space(plane: AnyPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Space]:
    async with AsyncExitStack() as stack:
        define(plane)
        directory = tmp_path_factory.mktemp("workloads")
        agent = await stack.enter_async_context(open_agent(plane, directory / "state", nodes=4))
        await agent.harness.muster.set_queue(QueueSpec(name=agent.namespace))
        await stack.enter_async_context(operating(agent.kube, JOB_SETS, MPI_JOBS))
        yield Space(plane, agent)


async def has_condition(space: Space, job: str, kind: str) -> bool:
    """Whether its own controller says this of the Job."""
    return bool(condition(await space.get(JOBS, job), kind))


@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_example_runs_and_is_cancelled_by_deleting_it(space: Space, example: str) -> None:
    resource, name, pods = EXAMPLES[example]
    manifest = (ROOT / f"examples/kubernetes/{example}.yaml").read_text(encoding="utf-8")
    manifest = manifest.replace(f"{QUEUE}: physics", f"{QUEUE}: {space.agent.namespace}")
    space.kubectl("apply", "-f", "-", stdin=manifest)
    running = await space.shows(resource, name, "running")
    job = await space.agent.harness.muster.get(job_of(resource, running))
    assert (job.phase, job.replicas) == (Phase.RUNNING, pods)
    there = await space.agent.pods()
    assert len(there) == pods
    assert {text(pod, "status", "phase") for pod in there} == {"Running"}
    space.kubectl("delete", "-f", "-", "--wait=false", stdin=manifest)
    await space.agent.phase_is(job.id, Phase.CANCELLED)
    await space.agent.until_gone()


async def test_kubectl_shows_a_muster_job_from_queued_to_its_end(space: Space) -> None:
    body = muster_job("shown", replicas=2, gpus=4)
    mapping(body, "spec")["labels"] = JOB_ENDS
    space.apply(body)
    ended = await space.shows(MUSTER_JOBS, "shown", "succeeded")
    head, row = space.kubectl("get", "mj", "shown", "-o", "wide").splitlines()
    assert head.split()[:5] == ["NAME", "PHASE", "REASON", "QUEUE", "GPUS"]
    assert row.split()[:2] == ["shown", "succeeded"]
    assert [text(one, "type") for one in objects(ended, "status", "conditions")] == ["Accepted", "Finished"]
    assert integer(ended, "status", "exitCode", default=-1) == 0
    described = space.kubectl("describe", "mj", "shown")
    assert "Succeeded" in described
    assert len(await space.events("shown")) <= 4


async def test_a_refused_muster_job_says_so(space: Space) -> None:
    space.apply(muster_job("lost", queue="nowhere"))
    refused = await space.shows(MUSTER_JOBS, "lost", "refused")
    assert "unknown queue" in text(condition(refused, "Accepted"), "message")


async def test_a_rejected_muster_job_may_be_mended(space: Space) -> None:
    space.apply(muster_job("mended", pod={"env": {"no-variable": "1"}}))
    await space.shows(MUSTER_JOBS, "mended", "rejected")
    body = muster_job("mended")
    mapping(body, "spec")["labels"] = JOB_ENDS
    space.apply(body)
    await space.shows(MUSTER_JOBS, "mended", "succeeded")


async def test_a_pod_ends_with_its_job_and_keeps_its_conditions(space: Space) -> None:
    body = asking_pod("one")
    mapping(body, "metadata")["annotations"] = dict(ENDS)
    space.apply(body)
    ended = await space.shows(PODS, "one", "succeeded")
    kinds = {text(one, "type"): text(one, "status") for one in objects(ended, "status", "conditions")}
    assert kinds["muster.dev/Job"] == "True"
    assert kinds["PodScheduled"] == "True"
    assert "Ready" in kinds


async def test_a_job_that_completes_is_left_as_its_controller_has_it(space: Space) -> None:
    body = batch_job("completes", pods=3)
    mapping(body, "spec", "template", "metadata")["annotations"] = dict(ENDS)
    space.apply(body)
    await space.shows(JOBS, "completes", "succeeded")

    await until_async(lambda: has_condition(space, "completes", "Complete"), patience_s=WAIT_S)


async def test_a_job_that_fails_is_tried_no_more(space: Space) -> None:
    body = batch_job("fails", pods=2)
    mapping(body, "spec", "template", "metadata")["annotations"] = {**ENDS, "muster.dev/exit-code": "3"}
    space.apply(body)
    ended = await space.shows(JOBS, "fails", "failed")
    job = await space.agent.harness.muster.get(note(ended, JOB_ID))
    assert (job.phase, job.exit_code) == (Phase.FAILED, 3)
    await until_async(lambda: has_condition(space, "fails", "Failed"), patience_s=WAIT_S)


async def test_a_running_job_that_its_owner_suspends_is_cancelled(space: Space) -> None:
    space.apply(batch_job("suspended", suspend=False))
    running = await space.shows(JOBS, "suspended", "running")
    first = {uid_of(pod) for pod in await space.agent.pods()}
    assert first
    await space.agent.kube.patch(
        JOBS, "suspended", {"spec": {"suspend": True}}, kind=Patch.MERGE, namespace=space.agent.namespace
    )
    await space.agent.phase_is(note(running, JOB_ID), Phase.CANCELLED)
    await space.shows(JOBS, "suspended", "cancelled")


async def test_the_namespace_holds_no_pod_that_was_made_twice(space: Space) -> None:
    """Last: every pod of Muster's own that is left belongs to one attempt."""
    names = [name_of(pod) for pod in await space.agent.pods()]
    assert len(names) == len(set(names))
