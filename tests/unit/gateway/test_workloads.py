"""What objects of a cluster ask of the gateway: the checks of `POST /v1/jobs`, each wish answered once."""

import pytest

from gateway_fakes import FakeHouse, lost_log
from muster.core import Fact, Instant
from muster.gateway.workload_answers import Answer, Answered, answer
from muster.gateway.workloads import PAUSE_S_MAX, PAUSE_S_MIN, consumer_config, pause_s
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.workload import WorkloadCancelRequested, WorkloadSettled, WorkloadSubmitRequested
from muster.schemas.job import JobSpec, TaskGroup, WorkloadRef
from muster.schemas.subjects import cluster_log

ORIGIN = WorkloadRef(
    cluster="atlas", api_version="muster.dev/v1alpha1", kind="MusterJob", namespace="blue", name="train", uid="u-1"
)
WHO = "kubernetes:blue"


def wish(uid: str = "u-1", **spec: object) -> WorkloadSubmitRequested:
    asked = JobSpec.model_validate({"name": "train", "team": "blue", "task_groups": (TaskGroup(gpus=1),), **spec})
    return WorkloadSubmitRequested(
        job_id=ids.job_id(team=asked.team, principal=WHO, idempotency_key=ids.origin_key(uid)),
        spec=asked,
        principal=WHO,
        origin=ORIGIN.model_copy(update={"uid": uid}),
    )


def said(payload: Payload, name: str = "submit-requested") -> Fact:
    return Fact("f1", 1, Instant(1), "atlas", "agent", "workload", "u-1", name, (), "t", payload)


async def ask(house: FakeHouse, payload: Payload, *, is_repeated: bool = False) -> Answered:
    return await answer(house.house, said(payload), is_repeated=is_repeated)


async def test_a_valid_object_becomes_a_job_that_knows_where_it_came_from() -> None:
    house, asked = FakeHouse(), wish()
    assert (await ask(house, asked)).answer is Answer.SUBMITTED
    job = house.log.jobs[asked.job_id].job
    assert (job.origin, job.principal, job.spec) == (ORIGIN, WHO, asked.spec)
    assert job.idempotency_key == ids.origin_key("u-1")
    assert job.trace.startswith("00-"), "it has a trace of its own"


async def test_a_wish_that_is_offered_twice_is_one_job() -> None:
    house, asked = FakeHouse(), wish()
    await ask(house, asked)
    assert (await ask(house, asked, is_repeated=True)).answer is Answer.SUBMITTED
    assert len(house.log.jobs) == 1


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"queue": "nowhere"}, "queue"),
        ({"queue": "shut"}, "queue"),
        ({"task_groups": (TaskGroup(gpus=9),)}, "task_groups.0.gpus"),
        ({"task_groups": (TaskGroup(gpus=1, gpu_models=("Z1",)),)}, "task_groups.0.gpu_models"),
        ({"task_groups": (TaskGroup(replicas=4096, gpus=8),)}, "task_groups"),
    ],
)
async def test_what_a_person_would_be_refused_an_object_is_refused(spec: dict[str, object], field: str) -> None:
    house, asked = FakeHouse(), wish(**spec)
    assert (await ask(house, asked)).answer is Answer.REFUSED
    refused = house.log.refused[asked.job_id]
    assert (refused.workload, refused.cluster, refused.field) == ("u-1", "atlas", field)
    assert refused.reason
    assert refused.cure
    assert not house.log.jobs


async def test_a_refusal_stands_though_its_cause_went_away_before_it_was_acknowledged() -> None:
    house, asked = FakeHouse(), wish(queue="shut")
    await ask(house, asked)
    house.view.queue_rows = [row.model_copy(update={"closed": False}) for row in house.view.queue_rows]
    assert (await ask(house, asked, is_repeated=True)).answer is Answer.REFUSED
    assert not house.log.jobs


async def test_an_id_that_does_not_follow_from_the_object_is_refused() -> None:
    house, asked = FakeHouse(), wish().model_copy(update={"job_id": "A" * 26})
    await ask(house, asked)
    assert house.log.refused["A" * 26].field == "job_id"


async def test_nothing_is_answered_while_the_log_does_not_answer() -> None:
    house = FakeHouse()
    house.log.fails = lost_log()
    for payload in (wish(), wish(queue="nowhere"), WorkloadCancelRequested(job_id="A" * 26, principal=WHO)):
        assert (await ask(house, payload)).answer is Answer.AGAIN
        assert (await ask(house, payload, is_repeated=True)).answer is Answer.AGAIN


async def test_nothing_is_answered_while_nobody_tells_which_queues_there_are() -> None:
    house = FakeHouse()
    house.view.is_down = house.scheduler.is_down = True
    assert (await ask(house, wish())).answer is Answer.AGAIN
    assert not house.log.refused


async def test_a_deleted_objects_job_is_cancelled_in_the_name_of_its_namespace() -> None:
    house = FakeHouse()
    gone = WorkloadCancelRequested(job_id="A" * 26, principal=WHO, reason="MusterJob train was deleted")
    assert (await ask(house, gone)).answer is Answer.CANCELLED
    [(job_id, cancel)] = house.log.cancels
    assert (job_id, cancel.principal, cancel.reason) == ("A" * 26, WHO, "MusterJob train was deleted")


async def test_other_facts_of_a_workload_ask_for_nothing() -> None:
    assert (await ask(FakeHouse(), WorkloadSettled(job_id="A" * 26))).answer is Answer.IGNORED


def test_the_consumer_takes_wishes_alone_and_from_the_beginning() -> None:
    config = consumer_config(cluster_log("atlas"))
    assert config["filter_subjects"] == [
        "muster.atlas.agent.workload.*.submit-requested",
        "muster.atlas.agent.workload.*.cancel-requested",
    ]
    assert config["deliver_policy"] == "all"


def test_a_wish_that_cannot_be_answered_comes_again_ever_later_up_to_a_bound() -> None:
    pauses = [pause_s(deliveries) for deliveries in range(1, 100)]
    assert pauses[0] == PAUSE_S_MIN
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_S_MAX
