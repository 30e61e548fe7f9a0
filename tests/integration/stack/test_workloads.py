"""Objects of Kubernetes through a whole stack over a fake API server: what they ask, what they show, how they end."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from kit.kube.fake import RUN_S, FakeKube, FakeKubelet, fake_kube, node
from kit.kube.objects import (
    SPACE,
    asking_pod,
    batch_job,
    condition,
    job_set,
    mpi_job,
    muster_job,
    note,
    phase,
    template,
)
from kit.kube.operators import operating
from kit.stack.kubernetes import kubeconfig_for, open_kubernetes_harness
from kit.stack.living import PASSED, Harness
from kit.waiting import until
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, at, mapping, name_of, namespace_of, objects, strings, text, truth, uid_of
from muster.kube.resources import EVENTS, JOB_SETS, JOBS, MPI_JOBS, MUSTER_JOBS, NAMESPACES, NODES, PODS, Resource
from muster.kube.workload_labels import JOB_ID, PHASE, QUEUE, REASON
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.views import JobView

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOREVER, SHORTLY = "", "0.3"
NODE_GPUS = 8


class Space:
    """The namespace of the tests' team. run_s: of pods that are bound from now on."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.run_s = SHORTLY
        kube.on_bind.append(self._bound)

    def add(self, resource: Resource, body: JsonObject) -> JsonObject:
        return self.kube.add(resource, body)

    def get(self, resource: Resource, name: str) -> JsonObject:
        return next((one for one in self.all(resource) if name_of(one) == name), {})

    def all(self, resource: Resource) -> list[JsonObject]:
        return [one for one in self.kube.store.all(resource) if namespace_of(one) == SPACE]

    async def shows(self, resource: Resource, name: str, wanted: str) -> JsonObject:
        """Wait until the object shows this phase."""

        def shown() -> str:
            found = self.get(resource, name)
            if resource == MUSTER_JOBS:
                return phase(found)
            return text(condition(found), "reason") if resource == PODS else note(found, PHASE)

        await until(lambda: shown() == wanted)
        return self.get(resource, name)

    def events(self, name: str) -> list[str]:
        return [text(one, "reason") for one in self.all(EVENTS) if text(one, "involvedObject", "name") == name]

    def _bound(self, pod: JsonObject) -> None:
        if self.run_s:
            patch: JsonObject = {"metadata": {"annotations": {RUN_S: self.run_s}}}
            self.kube.change(PODS, name_of(pod), patch, namespace_of(pod))


def of_queue(body: JsonObject, queue: str) -> JsonObject:
    mapping(body, "metadata", "labels")[QUEUE] = queue
    return body


@asynccontextmanager
async def new_space() -> AsyncIterator[Space]:
    async with fake_kube() as kube:
        for kind in (MUSTER_JOBS, JOB_SETS, MPI_JOBS):
            kube.register(kind)
        kube.add(NAMESPACES, {"metadata": {"name": SPACE}})
        for number in range(2):
            kube.add(NODES, node(f"gpu-{number}", gpus=NODE_GPUS))
        with FakeKubelet(kube):
            yield Space(kube)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[tuple[Space, Harness]]:
    """One stack for most tests: each has objects of its own, and leaves nothing that runs."""
    async with new_space() as space:
        directory = Path(tempfile.mkdtemp(prefix="muster-workloads-"))
        path = kubeconfig_for(space.kube.url, directory)
        async with open_kubernetes_harness(directory / "state", path, kept_s=0.0) as harness:
            yield space, harness
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def space(shared: tuple[Space, Harness]) -> Space:
    shared[0].run_s = SHORTLY
    shared[0].kube.log.clear()
    return shared[0]


@pytest.fixture
def harness(shared: tuple[Space, Harness]) -> Harness:
    return shared[1]


def has_ended(job: JobView) -> bool:
    """Whether the read model knows the end, too: an object may show it a moment earlier."""
    return job.phase.is_terminal


async def test_a_muster_job_runs_and_shows_it(space: Space, harness: Harness) -> None:
    space.add(MUSTER_JOBS, muster_job("train", replicas=2, gpus=8))
    ended = await space.shows(MUSTER_JOBS, "train", "succeeded")
    job = await harness.job_that(text(ended, "status", "jobId"), has_ended)
    assert (job.phase, job.team, job.principal) == (Phase.SUCCEEDED, SPACE, f"kubernetes:{SPACE}")
    assert at(ended, "status", "gpus") == "16"
    assert {text(one, "type"): text(one, "status") for one in objects(ended, "status", "conditions")} == {
        "Accepted": "True", "Finished": "True",
    }  # fmt: skip
    await until(lambda: "Succeeded" in space.events("train"))
    assert len(space.events("train")) <= 4, "events in moderation"
    bound = space.kube.asked("create", "pods/binding")
    assert {one.namespace for one in bound} == {SPACE}, "its pods are beside it"


async def test_a_muster_job_that_must_wait_says_why_and_deleting_it_cancels(space: Space, harness: Harness) -> None:
    space.add(MUSTER_JOBS, muster_job("large", replicas=3, gpus=8, topology={"level": "node", "required": False}))
    await until(lambda: text(space.get(MUSTER_JOBS, "large"), "status", "reason"))
    waiting = space.get(MUSTER_JOBS, "large")
    assert (phase(waiting), text(condition(waiting, "Placed"), "status")) == ("queued", "False")
    job_id = text(waiting, "status", "jobId")
    space.kube.remove(MUSTER_JOBS, "large", SPACE)
    assert (await harness.ended([job_id]))[0].phase is Phase.CANCELLED


async def test_what_the_gateway_refuses_shows_the_reason(space: Space, harness: Harness) -> None:
    space.add(MUSTER_JOBS, muster_job("lost", queue="nowhere"))
    refused = await space.shows(MUSTER_JOBS, "lost", "refused")
    accepted = condition(refused, "Accepted")
    assert (text(accepted, "status"), text(accepted, "reason")) == ("False", "Refused")
    assert "unknown queue 'nowhere'" in text(accepted, "message")
    facts = [fact for fact in await harness.federation_facts() if fact.subject_id == text(refused, "status", "jobId")]
    assert [fact.name for fact in facts] == ["refused", "refusal-forwarded"]
    await until(lambda: "Refused" in space.events("lost"))


async def test_what_was_refused_for_want_of_a_queue_runs_once_the_queue_is_there(
    space: Space, harness: Harness
) -> None:
    space.add(MUSTER_JOBS, muster_job("early", queue="newborn"))
    space.add(JOBS, of_queue(batch_job("early"), "newborn"))
    space.add(PODS, of_queue(asking_pod("early"), "newborn"))
    refused = await space.shows(MUSTER_JOBS, "early", "refused")
    assert "asked for again at" in text(condition(refused, "Accepted"), "message")
    await space.shows(PODS, "early", "Refused")
    await space.shows(JOBS, "early", "refused")
    await harness.muster.set_queue(QueueSpec(name="newborn", teams=(SPACE,)))
    async with KubeConnection.plain(space.kube.url, user_agent="operators/1") as connection, operating(connection):
        assert text(await space.shows(MUSTER_JOBS, "early", "succeeded"), "status", "jobId")
        await space.shows(JOBS, "early", "succeeded")
        await space.shows(PODS, "early", "Succeeded")


async def test_a_refused_object_whose_label_is_mended_runs(space: Space, harness: Harness) -> None:
    del harness
    for kind, body in ((JOBS, batch_job("mislabelled")), (PODS, asking_pod("mislabelled"))):
        space.add(kind, of_queue(body, "nowhere"))
    await space.shows(JOBS, "mislabelled", "refused")
    await space.shows(PODS, "mislabelled", "Refused")
    for kind in (JOBS, PODS):
        space.kube.change(kind, "mislabelled", {"metadata": {"labels": {QUEUE: SPACE}}}, SPACE)
    async with KubeConnection.plain(space.kube.url, user_agent="operators/1") as connection, operating(connection):
        await space.shows(JOBS, "mislabelled", "succeeded")
        await space.shows(PODS, "mislabelled", "Succeeded")


async def test_a_muster_job_that_can_be_no_job_is_rejected_until_it_is_mended(space: Space, harness: Harness) -> None:
    del harness
    space.add(MUSTER_JOBS, muster_job("bad", pod={"env": {"no-variable": "1"}}))
    rejected = await space.shows(MUSTER_JOBS, "bad", "rejected")
    assert text(condition(rejected, "Accepted"), "message").startswith("spec.pod")
    space.kube.change(MUSTER_JOBS, "bad", {"spec": {"pod": None}, "metadata": {"generation": 2}}, SPACE)
    await space.shows(MUSTER_JOBS, "bad", "succeeded")


async def test_a_pod_that_names_muster_is_bound_and_shows_its_job(space: Space, harness: Harness) -> None:
    space.add(PODS, asking_pod("notebook", gpus=2))
    ended = await space.shows(PODS, "notebook", "Succeeded")
    job_id = text(condition(ended), "message").partition(":")[0]
    job = await harness.job_that(job_id, has_ended)
    assert (job.phase, job.gpu_milli, job.name) == (Phase.SUCCEEDED, 2000, "notebook")


async def test_pods_of_a_gang_wait_until_all_are_there_and_are_one_job(space: Space, harness: Harness) -> None:
    for number in range(2):
        space.add(PODS, asking_pod(f"w-{number}", gang="ring", size=3, gpus=8 if number else 2))
    space.add(PODS, asking_pod("alone"))
    await space.shows(PODS, "alone", "Succeeded")
    assert not space.kube.asked("create", "pods/binding")[1:], "only the one that is alone was bound"
    space.add(PODS, asking_pod("w-2", gang="ring", size=3, gpus=2))
    ended = await space.shows(PODS, "w-0", "Succeeded")
    job = await harness.muster.get(text(condition(ended), "message").partition(":")[0])
    assert (job.name, job.replicas, job.gpu_milli) == ("ring", 3, 12_000)
    assert len({text(space.get(PODS, f"w-{number}"), "spec", "nodeName") for number in range(3)}) == 2


async def test_a_pod_that_asks_for_what_muster_does_not_know_says_so(space: Space, harness: Harness) -> None:
    del harness
    space.add(PODS, asking_pod("zoned", nodeSelector={"zone": "a"}))
    await until(lambda: text(condition(space.get(PODS, "zoned")), "reason") == "Rejected")
    told = text(condition(space.get(PODS, "zoned"), "PodScheduled"), "message")
    assert "spec.nodeSelector[zone]" in told


async def test_deleting_one_pod_of_a_gang_cancels_the_job(space: Space, harness: Harness) -> None:
    space.run_s = FOREVER
    for number in range(2):
        space.add(PODS, asking_pod(f"v-{number}", gang="pair", size=2))
    running = await space.shows(PODS, "v-0", "Running")
    space.kube.remove(PODS, "v-1", SPACE)
    job_id = text(condition(running), "message").partition(":")[0]
    assert (await harness.ended([job_id]))[0].phase is Phase.CANCELLED
    await until(lambda: not space.get(PODS, "v-0"))


async def test_suspended_kinds_are_let_go_when_their_place_is_there(space: Space, harness: Harness) -> None:
    async with KubeConnection.plain(space.kube.url, user_agent="operators/1") as connection, operating(connection):
        for resource, body in ((JOBS, batch_job("j")), (JOB_SETS, job_set("s")), (MPI_JOBS, mpi_job("m"))):
            space.add(resource, body)
        for resource, name, pods in ((JOBS, "j", 2), (JOB_SETS, "s", 5), (MPI_JOBS, "m", 3)):
            ended = await space.shows(resource, name, "succeeded")
            job = await harness.job_that(note(ended, JOB_ID), has_ended)
            assert (job.phase, job.replicas) == (Phase.SUCCEEDED, pods)
    mpi = await harness.muster.get(note(space.get(MPI_JOBS, "m"), JOB_ID))
    assert mpi.kind.value == "mpi"


async def test_a_running_job_that_is_suspended_or_deleted_is_cancelled(space: Space, harness: Harness) -> None:
    space.run_s = FOREVER
    async with KubeConnection.plain(space.kube.url, user_agent="operators/1") as connection, operating(connection):
        for name in ("held", "gone"):
            space.add(JOBS, batch_job(name, suspend=False))
        running = [await space.shows(JOBS, name, "running") for name in ("held", "gone")]
        space.kube.change(JOBS, "held", {"spec": {"suspend": True}}, SPACE)
        space.kube.remove(JOBS, "gone", SPACE)
        ended = await harness.ended([note(one, JOB_ID) for one in running])
        assert {one.phase for one in ended} == {Phase.CANCELLED}
        await space.shows(JOBS, "held", "cancelled")


async def test_a_preempted_job_is_held_and_let_go_again(space: Space, harness: Harness) -> None:
    space.run_s = FOREVER
    async with KubeConnection.plain(space.kube.url, user_agent="operators/1") as connection, operating(connection):
        body = batch_job("low", pods=2, gpus=8)
        mapping(body, "metadata")["annotations"] = {"muster.dev/min-slice-s": "0"}
        space.add(JOBS, body)
        low = await space.shows(JOBS, "low", "running")
        first = {uid_of(pod) for pod in space.all(PODS) if name_of(pod).startswith("low-")}
        space.run_s = SHORTLY
        urgent = muster_job("urgent", gpus=8, priority=90)
        space.add(MUSTER_JOBS, urgent)
        await space.shows(MUSTER_JOBS, "urgent", "succeeded")
        again = await harness.job_that(note(low, JOB_ID), lambda job: job.phase.is_terminal)
        assert (again.phase, again.attempt, again.preemptions) == (Phase.SUCCEEDED, 2, 1)
        assert not first & {uid_of(pod) for pod in space.all(PODS)}
        assert "Preempted" in space.events("low")


async def test_a_job_whose_pods_go_elsewhere_is_rejected_in_an_annotation(space: Space, harness: Harness) -> None:
    del harness
    other = batch_job("other", template=template(schedulerName="default-scheduler"))
    space.add(JOBS, other)
    rejected = await space.shows(JOBS, "other", "rejected")
    assert "spec.template.spec.schedulerName" in note(rejected, REASON)
    assert truth(rejected, "spec", "suspend")
    assert strings(rejected, "metadata", "annotations").get(JOB_ID) is None


async def test_objects_that_were_made_while_no_agent_looked_are_taken_up_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        space = await stack.enter_async_context(new_space())
        path = kubeconfig_for(space.kube.url, tmp_path)
        opened = open_kubernetes_harness(tmp_path / "state", path, split=True, services=PASSED, kept_s=0.0)
        harness = await stack.enter_async_context(opened)
        for name in ("before", "between"):
            for number in range(3):
                space.add(MUSTER_JOBS, muster_job(f"{name}-{number}"))
            await harness.kill("agent")
        names = [f"{name}-{number}" for name in ("before", "between") for number in range(3)]
        ended = [await space.shows(MUSTER_JOBS, name, "succeeded") for name in names]
        jobs = [text(one, "status", "jobId") for one in ended]
        assert len(set(jobs)) == len(names)
        requests = [
            fact for fact in await harness.facts() if fact.kind == "workload" and fact.name == "submit-requested"
        ]
        assert len(requests) == len(names)
        assert await harness.violations(jobs) == []
