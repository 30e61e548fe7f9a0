"""The attacker holds the API token of a submitter of one team, or may make objects in that team's namespace."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from kit.kube.fake import fake_kube, node
from kit.stack.kubernetes import kubeconfig_for, open_kubernetes_harness
from kit.stack.living import TEAM, Harness
from kit.waiting import PATIENCE_S, until_async
from muster.bus.batches import Writer
from muster.core import Draft, Fact
from muster.kube.resources import NODES
from muster.schemas import ids
from muster.schemas.access import Role, TokenRecord
from muster.schemas.facts.job import JobQueued
from muster.schemas.facts.queue import QueueSpec, QueueTemplate
from muster.schemas.facts.workload import JobRefused, WorkloadSubmitRequested
from muster.schemas.job import JobSpec, WorkloadRef
from muster.schemas.subjects import cluster_log

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

VICTIM, OWN = TEAM, "chem"
ATTACKER = TokenRecord(principal="mallory", role=Role.SUBMITTER, teams=(OWN,))
QUEUES = (
    QueueSpec(name=OWN, user_template=QueueTemplate()),
    QueueSpec(name=f"{OWN}-mallory", parent=OWN),
    QueueSpec(name=f"{OWN}-bob", parent=OWN),  # the queue of bob, of the attacker's own team
    QueueSpec(name="calm", teams=(OWN,), priority_max=60),
    QueueSpec(name="shared", teams=(OWN,)),
    QueueSpec(name="shared-batch", parent="shared"),
    QueueSpec(name="org"),
    QueueSpec(name=f"{VICTIM}-train", parent=VICTIM),
)
DAY_S, DAYS_90_S = 86_400.0, 90 * 86_400.0
SUBMITTER_MAX = 100
"""Default of `access.submitter.priority_max`."""


@dataclass
class Scene:
    """A stack with queues of two teams, and what the attacker holds: a token, and the right to make objects."""

    harness: Harness
    http: httpx.AsyncClient

    async def submit(self, **fields: object) -> httpx.Response:
        return await self.http.post("/v1/jobs", json=spec(**fields))

    async def plant(self, uid: str, **fields: object) -> Fact:
        """Write what an object of the namespace asks into the cluster's log, as its agent; return the answer in FED."""
        asked = JobSpec.model_validate(spec(**fields))
        principal = f"kubernetes:{OWN}"
        cluster = self.harness.settings.cluster
        job_id = ids.origin_job_id(team=OWN, cluster=cluster, namespace=OWN, uid=uid)
        origin = WorkloadRef(cluster=cluster, api_version="batch/v1", kind="Job", namespace=OWN, name="sweep", uid=uid)
        request = WorkloadSubmitRequested(job_id=job_id, spec=asked, principal=principal, origin=origin)
        message = Writer(cluster_log(cluster), "agent").write(
            Draft("workload", uid, "submit-requested", request), ids.request_fact_id(uid)
        )
        found: list[Fact] = []

        async def is_answered() -> bool:
            found[:] = [fact for fact in await self.harness.federation_facts() if fact.subject_id == job_id]
            return bool(found)

        async with self.harness.connection("agent") as agent:
            await agent.jetstream().publish(message.subject, message.body, headers=message.headers)
            await until_async(is_answered)
        return found[0]

    async def queued(self, job_id: str) -> JobQueued:
        """Return how the scheduler took the job in."""
        found: list[JobQueued] = []

        async def is_queued() -> bool:
            facts = await self.harness.facts()
            found[:] = [
                fact.payload for fact in facts if fact.subject_id == job_id and isinstance(fact.payload, JobQueued)
            ]
            return bool(found)

        await until_async(is_queued)
        return found[0]


def spec(**fields: object) -> dict[str, object]:
    return {"name": "sweep", "team": OWN, "task_groups": [{"gpus": 1}], **fields}


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["field"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="muster-submitter-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        kube = await stack.enter_async_context(fake_kube())
        kube.add(NODES, node("gpu-0", gpus=8))
        harness = await stack.enter_async_context(
            open_kubernetes_harness(directory / "state", kubeconfig_for(kube.url, directory), teams={OWN: OWN})
        )
        await harness.muster.set_queues(QUEUES)
        made = await harness.muster.make_token(ATTACKER)
        headers = {"Authorization": f"Bearer {made.token}"}
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=harness.stack.endpoints.http, headers=headers, timeout=PATIENCE_S)
        )

        async def knows_all_queues() -> bool:
            return {queue.name for queue in await harness.muster.queues()} >= {queue.name for queue in QUEUES}

        await until_async(knows_all_queues)
        yield Scene(harness, http)


@pytest.mark.parametrize("queue", [VICTIM, f"{VICTIM}-train", "org"])
async def test_a_job_for_another_teams_queue_is_refused(scene: Scene, queue: str) -> None:
    answer = await scene.submit(queue=queue, priority=1000, min_slice_s=DAYS_90_S)
    assert answer.status_code == 403
    answer = await scene.submit(queue=queue)
    assert refusal(answer) == (403, "queue")
    assert queue in answer.json()["detail"]
    assert OWN in answer.json()["cure"]


async def test_the_queue_of_another_user_of_the_team_is_refused(scene: Scene) -> None:
    assert refusal(await scene.submit(queue=f"{OWN}-bob")) == (403, "queue")


async def test_a_dry_run_refuses_what_a_submission_would(scene: Scene) -> None:
    for fields, field in (({"queue": VICTIM}, "queue"), ({"priority": SUBMITTER_MAX + 1}, "priority")):
        answer = (await scene.http.post("/v1/jobs", params={"dry_run": "true"}, json=spec(**fields))).json()
        assert (answer["refused"], answer["field"]) == (True, field)


async def test_each_job_of_a_batch_is_checked(scene: Scene) -> None:
    lines = [JobSpec.model_validate(spec(**fields)) for fields in ({"queue": VICTIM}, {"priority": 1000}, {})]
    body = "\n".join(line.model_dump_json(exclude_unset=True) for line in lines)
    answers = (await scene.http.post("/v1/jobs/batch", content=body)).json()["answers"]
    assert [answer["status"] for answer in answers] == [403, 403, 201]


async def test_a_priority_above_the_roles_maximum_is_refused(scene: Scene) -> None:
    answer = await scene.submit(priority=SUBMITTER_MAX + 1)
    assert refusal(answer) == (403, "priority")
    assert str(SUBMITTER_MAX) in answer.json()["cure"]
    assert (await scene.submit(priority=SUBMITTER_MAX)).status_code == 201


async def test_a_priority_above_the_queues_maximum_is_refused(scene: Scene) -> None:
    assert refusal(await scene.submit(queue="calm", priority=61)) == (422, "priority")
    assert (await scene.submit(queue="calm", priority=60)).status_code == 201


async def test_a_running_or_waiting_job_cannot_be_raised_above_either_maximum(scene: Scene) -> None:
    for queue, most, status in ((OWN, SUBMITTER_MAX, 403), ("calm", 60, 422)):
        job_id = (await scene.submit(queue=queue)).json()["id"]
        await scene.queued(job_id)
        raised = await scene.http.post(f"/v1/jobs/{job_id}/priority", json={"priority": most + 1})
        assert refusal(raised) == (status, "priority")
        assert (await scene.http.post(f"/v1/jobs/{job_id}/priority", json={"priority": most})).status_code == 202


async def test_a_slice_is_at_most_a_day(scene: Scene) -> None:
    job_id = (await scene.submit(min_slice_s=DAYS_90_S)).json()["id"]
    assert (await scene.queued(job_id)).min_slice_s == DAY_S


@pytest.mark.parametrize(
    ("uid", "fields", "field"), [("u-queue", {"queue": VICTIM}, "queue"), ("u-urgent", {"priority": 1000}, "priority")]
)
async def test_an_object_of_kubernetes_is_refused_alike(
    scene: Scene, uid: str, fields: dict[str, object], field: str
) -> None:
    answer = await scene.plant(uid, **fields)
    assert isinstance(answer.payload, JobRefused), answer
    assert answer.payload.field == field


@pytest.mark.parametrize("queue", [None, OWN, f"{OWN}-mallory", "shared", "shared-batch"])
async def test_queues_of_the_team_and_below_one_that_names_it_take_its_jobs(scene: Scene, queue: str | None) -> None:
    assert (await scene.submit(queue=queue)).status_code == 201


async def test_an_operator_submits_to_every_queue(scene: Scene) -> None:
    urgent = JobSpec.model_validate(spec(queue=VICTIM, priority=1000))
    assert (await scene.harness.muster.submit(urgent)).priority == 1000


async def test_a_submitter_cannot_name_its_team_as_an_owner(scene: Scene) -> None:
    mine = QueueSpec(name=VICTIM, teams=(OWN,))
    answer = await scene.http.put(f"/v1/queues/{VICTIM}", content=mine.model_dump_json())
    assert answer.status_code == 403
