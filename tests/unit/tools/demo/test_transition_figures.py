"""What the demonstration of a transition counts: one small story, and everything that could have gone wrong in it."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kit.log import a_fact
from muster.cli.options import Output
from muster.core import NS_PER_S, Fact, Instant
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.control import Fence
from muster.schemas.facts.job import JobEnded, JobRouted
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup
from muster_tools.demo.transition import Figures, Logs, figures, tell

NAMES = ("runs", "waits", "late")
IDS = {name: ids.job_id(team="lab", principal="ada", idempotency_key=name) for name in NAMES}
ASKED_S = 10.0
ANYTHING = Fence(term=1, folded_seq=1)
"""A body where only the name of a fact counts."""


def at(seconds: float) -> Instant:
    return Instant(round(seconds * NS_PER_S))


def said(at_s: float, name: str, of: str, payload: Payload = ANYTHING, *, kind: str = "job") -> Fact:
    seq, fact_id = round(at_s * 100), f"{name}-{of}"
    return a_fact("w", kind, IDS.get(of, of), name, payload, seq=seq, time=at(at_s), cluster="", fact_id=fact_id)


def routed(at_s: float, of: str, to: str, *, submitted_s: float, age_s: float = 0.0) -> Fact:
    job = Job(
        id=IDS[of],
        spec=JobSpec(name=of, team="lab", task_groups=(TaskGroup(gpus=1),)),
        principal="ada",
        idempotency_key=of,
        body_hash="",
        submitted_at=at(submitted_s),
    )
    return said(at_s, "routed", of, JobRouted(job=job, cluster=to, age_s=age_s))


def ended(at_s: float, of: str, where: str) -> Fact:
    return said(at_s, "job-ended", of, JobEnded(cluster=where, phase=Phase.SUCCEEDED, ended_at=at(at_s)))


FED = (
    *(said(seconds, "submitted", name) for seconds, name in zip((1.0, 2.0, 11.0), NAMES, strict=True)),
    routed(1.1, "runs", "old", submitted_s=1.0),
    routed(2.1, "waits", "old", submitted_s=2.0),
    said(ASKED_S, "drain-requested", "old", kind="cluster"),
    said(10.1, "draining", "old", kind="cluster"),
    said(10.2, "recall-forwarded", "waits"),
    routed(10.5, "waits", "new", submitted_s=2.0, age_s=8.4),
    routed(11.1, "late", "new", submitted_s=11.0),
    ended(13.0, "waits", "new"),
    ended(14.0, "late", "new"),
    ended(15.0, "runs", "old"),
    said(15.1, "drained", "old", kind="cluster"),
)
LOGS = Logs(
    old="old",
    new="new",
    fed=FED,
    at_old=(said(1.5, "pods-started", "runs"), said(14.9, "succeeded", "runs")),
    at_new=(
        said(10.7, "pods-started", "waits"), said(11.5, "pods-started", "late"),
        said(12.9, "succeeded", "waits"), said(13.9, "succeeded", "late"),
    ),
)  # fmt: skip


def found(logs: Logs = LOGS) -> Figures:
    return figures(logs, IDS.values())


def test_a_transition_that_nobody_noticed_has_no_problem() -> None:
    story = found()
    assert (story.problem, story.jobs, story.submissions) == ("", 3, 3)
    assert (story.stayed, story.moved, story.straight) == (1, 1, 1)
    assert (story.away_s_max, story.drained_s) == (0.3, 5.1)
    assert [moment.at_s for moment in story.moments] == sorted(moment.at_s for moment in story.moments)
    assert story.moments[0].at_s == 0.0


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (replace(LOGS, fed=[fact for fact in FED if fact.id != "job-ended-waits"]), "1 of 3 jobs did not succeed"),
        (replace(LOGS, at_old=(*LOGS.at_old, said(9.0, "pods-started", "waits"))), "1 jobs ran twice"),
        (replace(LOGS, at_old=(*LOGS.at_old, said(10.4, "stop-requested", "runs"))), "ended by the old cluster"),
        (replace(LOGS, fed=(*FED, said(12.0, "submitted", "again"))), "4 submissions for 3 jobs"),
        (replace(LOGS, fed=[fact for fact in FED if fact.name != "drained"]), "is not drained"),
        (replace(LOGS, fed=[f for f in FED if f.time != at(10.5)]), "no job waited"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_said(broken: Logs, problem: str) -> None:
    assert problem in found(broken).problem


@pytest.mark.parametrize(("submitted_s", "age_s"), [(2.0, 1.0), (10.4, 8.4)])
def test_a_job_that_waits_as_if_it_had_just_come_lost_its_age(submitted_s: float, age_s: float) -> None:
    again = routed(10.5, "waits", "new", submitted_s=submitted_s, age_s=age_s)
    logs = replace(LOGS, fed=[again if fact.time == at(10.5) else fact for fact in FED])
    assert "1 jobs lost their age" in found(logs).problem


def test_without_a_drain_there_is_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match="no request to drain"):
        found(replace(LOGS, fed=[fact for fact in FED if fact.name != "drain-requested"]))


def test_programs_get_the_same_as_people(capsys: pytest.CaptureFixture[str]) -> None:
    tell(found(), Output.JSON)
    plain = json.loads(capsys.readouterr().out)
    assert (plain["passed"], plain["problem"], plain["moved"], plain["lost"]) == (True, "", 1, 0)
    tell(found(), Output.TABLE)
    shown = capsys.readouterr().out
    _assert_in_order(shown, ("drain of the old cluster", "first job moved to new", "old cluster is empty", "run twice"))


def _assert_in_order(text: str, words: Sequence[str]) -> None:
    places = [text.index(word) for word in words]
    assert places == sorted(places)
