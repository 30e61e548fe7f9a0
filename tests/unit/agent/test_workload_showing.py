"""What objects show of their jobs, and of which changes people hear by an event."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.agent_workloads import POLICY, UNFIT, WatchingAgent, seen
from kit.kube.objects import muster_job
from muster.agent.core.kubernetes.resources import rfc3339
from muster.agent.core.workload_values import WorkloadKind, WorkloadView
from muster.agent.core.workloads.objects import WorkloadProjection
from muster.agent.core.workloads.pod_gangs import camel_reason, kebab
from muster.agent.core.workloads.showing import Showing, event, news_of, rejection_of, showing_of
from muster.core import NS_PER_S, Instant
from muster.kube.musterjob import crd, status_schema
from muster.kube.objects import JsonObject, at, is_object, mapping, objects, text
from muster.kube.resources import MUSTER_JOBS
from muster.schemas.facts.job import JobPlaced, JobRunning, JobUnschedulable
from muster.schemas.facts.operations import CheckOrder, PreflightPlan
from muster.schemas.job import Phase, Slot


@pytest.fixture
def agent() -> WatchingAgent:
    agent = WatchingAgent()
    agent.see(seen())
    return agent


def shown(agent: WatchingAgent, **view: object) -> Showing:
    return showing_of(agent.workloads.records["u-1"], seen(**view))


def conditions(showing: Showing) -> dict[str, str]:
    return {text(one, "type"): text(one, "status") for one in objects(showing.body, "status", "conditions")}


def test_a_muster_job_shows_every_step_of_its_job(agent: WatchingAgent) -> None:
    steps = [shown(agent)]
    job = agent.accept()
    steps.append(shown(agent))
    agent.start(job, "gpu-0001", "gpu-0002")
    steps.append(shown(agent))
    agent.finish(job)
    steps.append(shown(agent))
    assert [at(step.body, "status", "phase") for step in steps] == ["submitted", "queued", "running", "succeeded"]
    assert [conditions(step) for step in steps] == [
        {"Accepted": "Unknown"},
        {"Accepted": "True", "Placed": "False"},
        {"Accepted": "True", "Placed": "True"},
        {"Accepted": "True", "Finished": "True"},
    ]
    assert at(steps[2].body, "status", "nodes") == ["gpu-0001", "gpu-0002"]
    assert at(steps[2].body, "status", "message") == "on gpu-0001, gpu-0002"
    assert len({step.urgent for step in steps}) == 4


def test_it_is_shown_that_checks_run_before_a_job_begins(agent: WatchingAgent) -> None:
    job = agent.accept()
    slots = (Slot(group=0, replica=0, node="gpu-0001", devices=(0,)),)
    plan = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"),))
    agent.write("scheduler", "job", job.id, "placed", JobPlaced(attempt=1, slots=slots, preflight=plan))
    placed = shown(agent)
    assert (at(placed.body, "status", "phase"), at(placed.body, "status", "reason")) == ("placed", "preflight")
    assert at(placed.body, "status", "message") == "on gpu-0001, which are checked before it begins"
    (news,) = [news_of(record) for record in agent.workloads.records.values()]
    assert news is not None
    assert "which are checked" in news.message
    agent.write("scheduler", "job", job.id, "running", JobRunning(attempt=1, preflight="quick"))
    running = shown(agent)
    assert (at(running.body, "status", "reason"), at(running.body, "status", "message")) == (None, "on gpu-0001")


def test_what_is_written_is_what_the_object_then_shows(agent: WatchingAgent) -> None:
    agent.start(agent.accept(), "gpu-0001")
    showing = shown(agent)
    raw = muster_job("train")
    mapping(raw, "metadata").update(uid="u-1", namespace="blue")
    raw["status"] = {key: value for key, value in mapping(showing.body, "status").items() if value is not None}
    view = WorkloadProjection(WorkloadKind.MUSTER_JOB, MUSTER_JOBS.api_version, POLICY)(raw)
    assert view is not None
    assert view.shown.said == showing.said, "else it would be written again and again"


def test_the_schema_knows_every_field_of_the_status(agent: WatchingAgent) -> None:
    agent.start(agent.accept(), "gpu-0001")
    known = mapping(status_schema(), "properties")
    assert set(mapping(shown(agent).body, "status")) == set(known)
    [version] = objects(crd(), "spec", "versions")
    paths = {
        text(column, "jsonPath").removeprefix(".status.") for column in objects(version, "additionalPrinterColumns")
    }
    assert paths - {".metadata.creationTimestamp"} <= set(known)


def test_while_only_words_change_nothing_is_urgent(agent: WatchingAgent) -> None:
    job = agent.accept()
    seen_so_far: list[Showing] = []
    for reason, detail in (("no-capacity", "1 of 8"), ("no-capacity", "2 of 8"), ("quota", "over")):
        agent.write("scheduler", "job", job.id, "unschedulable", JobUnschedulable(reason=reason, detail=detail))
        seen_so_far.append(shown(agent))
    first, second, third = seen_so_far
    assert first.said != second.said
    assert first.urgent == second.urgent != third.urgent


def test_a_refusal_and_a_rejection_show_reason_and_cure(agent: WatchingAgent) -> None:
    agent.refuse()
    refused = shown(agent)
    assert at(refused.body, "status", "phase") == "refused"
    message = (
        "queue: unknown queue. Make it. It is asked for again at 2023-11-14T22:13:35Z, and as soon as it or its queue"
    )
    assert text(refused.body, "status", "message") == f"{message} changes."
    for kind in (WorkloadKind.MUSTER_JOB, WorkloadKind.JOB, WorkloadKind.POD):
        rejected = rejection_of(UNFIT, seen(kind=kind, generation=3))
        assert UNFIT.reason in str(rejected.body)
        assert UNFIT.cure in str(rejected.body)


def test_objects_of_others_show_it_in_annotations_and_pods_in_a_condition(agent: WatchingAgent) -> None:
    job = agent.accept()
    annotated = shown(agent, kind=WorkloadKind.JOB)
    notes = mapping(annotated.body, "metadata", "annotations")
    assert (notes["muster.dev/job-id"], notes["muster.dev/phase"]) == (job.id, "queued")
    assert "spec" not in annotated.body
    in_pod = conditions(shown(agent, kind=WorkloadKind.POD))
    assert in_pod == {"muster.dev/Job": "True", "PodScheduled": "False"}
    agent.start(job, "gpu-0001")
    assert conditions(shown(agent, kind=WorkloadKind.POD)) == {"muster.dev/Job": "True"}, "the kubelet's are left alone"


@pytest.mark.parametrize("end", ["cancelled", "timed-out", "succeeded", "failed"])
def test_only_what_is_ended_from_outside_is_held(agent: WatchingAgent, end: str) -> None:
    is_held = end in ("cancelled", "timed-out")
    agent.finish(agent.accept(), end)
    body = shown(agent, kind=WorkloadKind.JOB).body
    assert (at(body, "spec", "suspend") is True) is is_held
    assert "spec" not in shown(agent, kind=WorkloadKind.JOB, finished=True).body


def test_people_hear_of_a_place_a_shortage_and_an_end_and_of_little_else(agent: WatchingAgent) -> None:
    told: list[str] = []

    def hear() -> None:
        news = news_of(agent.workloads.records["u-1"])
        if news is not None and news.key not in told:
            told.append(news.key)
            assert event(news, seen(), now=agent.now) == event(news, seen(), now=agent.now)

    hear()
    job = agent.accept()
    hear()
    for number in range(50):
        short = JobUnschedulable(reason="no-capacity", detail=f"{number} of 64 free")
        agent.write("scheduler", "job", job.id, "unschedulable", short)
        hear()
    agent.start(job, "gpu-0001")
    hear()
    agent.finish(job)
    hear()
    assert [key.split("/")[2] for key in told] == ["queued", "queued", "succeeded"], (
        "first in line, then short, then over"
    )


def test_an_event_is_about_the_object_and_is_made_once(agent: WatchingAgent) -> None:
    agent.finish(agent.accept(), "failed")
    news = news_of(agent.workloads.records["u-1"])
    assert news is not None
    body: JsonObject = event(news, seen(), now=agent.now)
    assert (text(body, "involvedObject", "uid"), text(body, "type"), text(body, "reason")) == (
        "u-1",
        "Warning",
        "Failed",
    )
    again = event(news, seen(), now=Instant(agent.now + NS_PER_S))
    assert at(again, "metadata", "name") == at(body, "metadata", "name")


@given(st.integers(min_value=1, max_value=4_000_000_000))
def test_moments_read_as_the_calendar_has_them(second: int) -> None:
    expected = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert rfc3339(second * NS_PER_S) == expected


def test_a_moment_that_has_not_come_is_none() -> None:
    assert rfc3339(0) is None


@pytest.mark.parametrize("phase", [*Phase, "refused", "rejected"])
def test_phases_read_back_from_reasons(phase: str) -> None:
    assert kebab(camel_reason(phase)) == phase


def test_a_view_has_nothing_of_the_object_but_values() -> None:
    view: WorkloadView = seen()
    assert hash(view.uid)
    assert not any(is_object(getattr(view, name)) for name in view.__slots__)
