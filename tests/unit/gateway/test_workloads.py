"""What objects of a cluster ask of the gateway: the checks of `POST /v1/jobs`, each wish answered once."""

from dataclasses import replace

import pytest

from kit.clocks import FakeTime
from kit.http.gateway import FakeHarness, lost_log
from kit.log import a_fact
from muster.bus.gateway_settings import AccessSettings, SubmitterSettings
from muster.bus.settings import Settings
from muster.core import Fact
from muster.gateway import accept
from muster.gateway.limits import Limits
from muster.gateway.workloads import (
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    Answer,
    Answered,
    Authority,
    answer,
    authority_of,
    consumer_config,
    pause_s,
)
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.workload import WorkloadCancelRequested, WorkloadSettled, WorkloadSubmitRequested
from muster.schemas.job import JobSpec, TaskGroup, WorkloadRef
from muster.schemas.subjects import cluster_log
from muster.schemas.views import QueueView

ORIGIN = WorkloadRef(
    cluster="atlas", api_version="muster.dev/v1alpha1", kind="MusterJob", namespace="blue", name="train", uid="u-1"
)
WHO = "kubernetes:blue"
ATLAS = Authority("atlas", {"blue": "blue", "sky": "blue"})


def wish(uid: str = "u-1", **spec: object) -> WorkloadSubmitRequested:
    asked = JobSpec.model_validate({"name": "train", "team": "blue", "task_groups": (TaskGroup(gpus=1),), **spec})
    return WorkloadSubmitRequested(
        job_id=ids.origin_job_id(team=asked.team, cluster="atlas", namespace="blue", uid=uid),
        spec=asked,
        principal=WHO,
        origin=ORIGIN.model_copy(update={"uid": uid}),
    )


def said(payload: Payload, name: str = "submit-requested") -> Fact:
    return a_fact("agent", "workload", "u-1", name, payload, trace="t")


async def ask(
    harness: FakeHarness, payload: Payload, *, is_repeated: bool = False, authority: Authority = ATLAS
) -> Answered:
    return await answer(harness.harness, authority, said(payload), is_repeated=is_repeated)


async def test_a_valid_object_becomes_a_job_that_knows_where_it_came_from() -> None:
    harness, asked = FakeHarness(), wish()
    assert (await ask(harness, asked)).answer is Answer.SUBMITTED
    job = harness.log.jobs[asked.job_id].job
    assert (job.origin, job.principal, job.spec) == (ORIGIN, WHO, asked.spec)
    assert job.idempotency_key == ids.origin_key("atlas", "u-1")
    assert job.trace.startswith("00-"), "it has a trace of its own"


async def test_a_wish_that_is_offered_twice_is_one_job() -> None:
    harness, asked = FakeHarness(), wish()
    await ask(harness, asked)
    assert (await ask(harness, asked, is_repeated=True)).answer is Answer.SUBMITTED
    assert len(harness.log.jobs) == 1


async def test_objects_above_the_limit_of_their_team_wait_and_are_not_refused() -> None:
    few = AccessSettings(submitter=SubmitterSettings(team_jobs_per_min=60, team_jobs_burst=2))
    fakes, time = FakeHarness(), FakeTime()
    harness = replace(fakes.harness, limits=Limits(few), time=time)

    async def asked_by(uid: str) -> Answer:
        fact = replace(said(wish(uid)), id=uid, subject_id=uid)
        return (await answer(harness, ATLAS, fact, is_repeated=False)).answer

    answers = [await asked_by(f"u-{number}") for number in range(3)]
    assert answers == [Answer.SUBMITTED, Answer.SUBMITTED, Answer.AGAIN]
    assert not fakes.log.refused
    time.advance(1)
    assert await asked_by("u-2") is Answer.SUBMITTED


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"queue": "nowhere"}, "queue"),
        ({"queue": "shut"}, "queue"),
        ({"queue": "red"}, "queue"),
        ({"priority": 101}, "priority"),
        ({"task_groups": (TaskGroup(gpus=9),)}, "task_groups.0.gpus"),
        ({"task_groups": (TaskGroup(gpus=1, gpu_models=("Z1",)),)}, "task_groups.0.gpu_models"),
        ({"task_groups": (TaskGroup(replicas=4096, gpus=8),)}, "task_groups"),
    ],
)
async def test_what_a_person_would_be_refused_an_object_is_refused(spec: dict[str, object], field: str) -> None:
    harness, asked = FakeHarness(), wish(**spec)
    harness.view.queue_rows.append(QueueView(name="red", cluster="atlas"))
    assert (await ask(harness, asked)).answer is Answer.REFUSED
    refused = harness.log.refused[asked.job_id]
    assert (refused.workload, refused.cluster, refused.field) == ("u-1", "atlas", field)
    assert refused.reason
    assert refused.cure
    assert not harness.log.jobs


async def test_a_refusal_stands_though_its_cause_went_away_before_it_was_acknowledged() -> None:
    harness, asked = FakeHarness(), wish(queue="shut")
    await ask(harness, asked)
    harness.view.queue_rows = [row.model_copy(update={"closed": False}) for row in harness.view.queue_rows]
    assert (await ask(harness, asked, is_repeated=True)).answer is Answer.REFUSED
    assert not harness.log.jobs


async def test_an_id_that_does_not_follow_from_the_object_is_refused_under_the_objects_own() -> None:
    harness, asked = FakeHarness(), wish().model_copy(update={"job_id": "A" * 26})
    await ask(harness, asked)
    assert set(harness.log.refused) == {wish().job_id}, "nothing is said of the job that it names"
    assert harness.log.refused[wish().job_id].field == "job_id"
    assert not harness.log.jobs


@pytest.mark.parametrize(
    "origin",
    [ORIGIN.model_copy(update={"cluster": "bravo"}), ORIGIN.model_copy(update={"uid": "u-2"})],
    ids=["of another cluster", "of another object"],
)
async def test_a_wish_of_another_object_than_its_subject_is_dropped(origin: WorkloadRef) -> None:
    harness = FakeHarness()
    asked = wish().model_copy(update={"origin": origin})
    assert (await ask(harness, asked)).answer is Answer.FOREIGN
    assert not harness.log.jobs
    assert not harness.log.refused


@pytest.mark.parametrize(
    ("teams", "told"),
    [({}, "has no team"), ({"blue": "red"}, "for team red"), ({"sky": "blue"}, "has no team")],
)
async def test_a_namespace_asks_for_the_team_that_the_settings_name_and_no_other(
    teams: dict[str, str], told: str
) -> None:
    harness, authority = FakeHarness(), Authority("atlas", teams, "the setting")
    assert (await ask(harness, wish(), authority=authority)).answer is Answer.REFUSED
    assert not harness.log.jobs
    [(job_id, refused)] = harness.log.refused.items()
    assert job_id != wish().job_id
    assert (refused.workload, refused.cluster, refused.field) == ("u-1", "atlas", "metadata.namespace")
    assert told in refused.reason
    assert "the setting" in refused.reason + refused.cure


async def test_principal_and_trace_follow_from_the_object_and_not_from_the_wish() -> None:
    harness = FakeHarness()
    other = ids.traceparent(ids.trace_id("other"), ids.span_id("other"))
    asked = wish().model_copy(update={"principal": "ada", "trace": other})
    assert (await ask(harness, asked)).answer is Answer.SUBMITTED
    job = harness.log.jobs[asked.job_id].job
    assert job.principal == WHO
    assert job.trace == ids.traceparent(ids.trace_id(job.id), ids.span_id(job.id))


def test_no_cluster_makes_an_id_of_anothers_job() -> None:
    """Whichever uid it makes up: nothing that may stand in a name ends the cluster's."""
    mine = ids.origin_job_id(team="blue", cluster="atlas-b", namespace="blue", uid="u")
    for uid in ("u", "b-u", "b/u", "-b/u"):
        assert ids.origin_job_id(team="blue", cluster="atlas", namespace="blue", uid=uid) != mine


def test_a_centre_goes_by_its_own_table_and_a_whole_stack_by_its_clusters() -> None:
    members = [{"name": "east", "teams": {"lab": "research"}}, {"name": "west"}]
    paths = {"state_dir": "/x", "credentials_dir": "/x"}
    centre = Settings.model_validate({**paths, "role": "centre", "federation": {"clusters": members}})
    assert [authority_of(centre, name).teams for name in ("east", "west")] == [{"lab": "research"}, {}]
    whole = Settings.model_validate({**paths, "cluster": "east", "kubernetes": {"teams": {"lab": "research"}}})
    assert authority_of(whole, "east").teams == {"lab": "research"}


async def test_nothing_is_answered_while_the_log_does_not_answer() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    for payload in (wish(), wish(queue="nowhere"), WorkloadCancelRequested(job_id="A" * 26, principal=WHO)):
        assert (await ask(harness, payload)).answer is Answer.AGAIN
        assert (await ask(harness, payload, is_repeated=True)).answer is Answer.AGAIN


async def test_nothing_is_answered_while_nobody_tells_which_queues_there_are() -> None:
    harness = FakeHarness()
    harness.view.is_down = harness.scheduler.is_down = True
    assert (await ask(harness, wish())).answer is Answer.AGAIN
    assert not harness.log.refused


async def test_a_deleted_objects_job_is_cancelled_in_the_name_of_its_namespace() -> None:
    harness, job_id = FakeHarness(), wish().job_id
    gone = WorkloadCancelRequested(job_id=job_id, principal=WHO, reason="MusterJob train was deleted")
    assert (await ask(harness, gone)).answer is Answer.CANCELLED
    [(cancelled, cancel)] = harness.log.cancels
    assert (cancelled, cancel.principal, cancel.reason) == (job_id, WHO, "MusterJob train was deleted")


async def test_a_job_from_before_its_namespace_acted_for_another_team_is_cancelled_in_its_own_name() -> None:
    harness, asked = FakeHarness(), wish()
    await ask(harness, asked)
    gone = WorkloadCancelRequested(job_id=asked.job_id, principal="ada")
    assert (await ask(harness, gone, authority=Authority("atlas", {"blue": "red"}))).answer is Answer.CANCELLED
    assert harness.log.cancels[0][1].principal == WHO


@pytest.mark.parametrize("origin", [None, ORIGIN.model_copy(update={"cluster": "bravo"})])
async def test_a_job_that_does_not_stand_for_the_object_is_not_cancelled(origin: WorkloadRef | None) -> None:
    harness = FakeHarness()
    spec = wish().spec
    job = accept.make_job(spec, principal="ada", key="k", traceparent="").model_copy(update={"origin": origin})
    await harness.log.submit(job)
    for job_id in (job.id, "A" * 26):
        gone = WorkloadCancelRequested(job_id=job_id, principal=WHO)
        assert (await ask(harness, gone)).answer is Answer.FOREIGN
    assert not harness.log.cancels


async def test_other_facts_of_a_workload_ask_for_nothing() -> None:
    assert (await ask(FakeHarness(), WorkloadSettled(job_id="A" * 26))).answer is Answer.IGNORED


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
