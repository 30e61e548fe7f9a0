"""Where jobs go, what is forwarded, and what comes back."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.federation import START, VirtualFederation, belief, job
from muster.core import Draft
from muster.federation.core import MemberPlan
from muster.federation.core import core as core_module
from muster.federation.core import state as state_module
from muster.federation.core.copies import copy_id
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.job_requests import Ask
from muster.schemas.job import Job, Phase

TWO = (MemberPlan("near"), MemberPlan("atlas"))


def test_a_submitted_job_is_routed_to_the_only_cluster_with_all_that_it_needs() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.settle()
    routed = world.last("routed", one.id)
    assert routed.cluster == routed.payload.cluster == "atlas"
    assert routed.payload.job.spec == one.spec
    assert routed.payload.job.submitted_at == START, "the broker's time of submission"
    assert routed.trace == one.trace
    assert routed.causes == (world.last("submitted", one.id).id,)


def test_a_job_cancelled_before_it_was_routed_ends_here() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.cancel(one)
    world.settle()
    assert world.names(one) == ["cancelled"]
    assert world.last("cancelled", one.id).payload.reason == "enough"


def test_a_cancellation_after_routing_is_forwarded_once_to_its_cluster() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.settle()
    world.cancel(one)
    world.cancel(one)
    world.settle()
    assert world.names(one) == ["routed", "cancel-forwarded"]
    forwarded = world.last("cancel-forwarded", one.id)
    assert (forwarded.cluster, forwarded.payload.principal, forwarded.trace) == ("atlas", "ada", one.trace)


def test_a_cancellation_of_an_ended_job_is_not_forwarded() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.settle()
    world.copy(world.report(one))
    world.cancel(one)
    world.settle()
    assert world.names(one) == ["routed", "job-ended"]


@pytest.mark.parametrize("ask", list(Ask))
def test_what_is_asked_of_a_job_is_forwarded_to_its_cluster_as_it_was_asked(ask: Ask) -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.settle()
    asked = world.ask(one, ask, priority=90, reason="wrong data")
    world.settle()
    forwarded = world.last(f"{ask.value}-forwarded", one.id)
    assert forwarded.payload == asked.payload
    assert (forwarded.cluster, forwarded.causes, forwarded.trace) == ("atlas", (asked.id,), one.trace)


def test_what_is_asked_of_a_job_waits_until_it_is_routed_and_the_newest_of_each_sort_counts() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    for ask in (Ask.HOLD, Ask.RELEASE, Ask.HOLD):
        last = world.ask(one, ask)
    for priority in (10, 90):
        world.ask(one, Ask.PRIORITY, priority=priority)
    world.settle()
    assert world.names(one) == ["routed", "hold-forwarded", "priority-forwarded"]
    assert world.last("hold-forwarded", one.id).causes == (last.id,)
    assert world.last("priority-forwarded", one.id).payload.priority == 90


def test_a_wish_that_comes_while_the_one_before_is_being_forwarded_is_forwarded_too() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.settle()
    world.ask(one, Ask.HOLD)
    (draft,) = world.core.decide(START)
    world.ask(one, Ask.RELEASE)
    world.append("federation", draft)
    world.settle()
    assert world.names(one) == ["routed", "hold-forwarded", "release-forwarded"]


@pytest.mark.parametrize("ask", list(Ask))
def test_nothing_is_forwarded_for_a_job_that_has_ended(ask: Ask) -> None:
    world, one, never = VirtualFederation(), job("one"), job("never")
    world.submit(one)
    world.settle()
    world.copy(world.report(one))
    world.submit(never)
    world.ask(never, ask)
    world.cancel(never)
    world.ask(one, ask)
    world.settle()
    assert world.names(one) == ["routed", "job-ended"]
    assert world.names(never) == ["cancelled"]
    assert world.core.state.anomalies[f"{ask.value}-requested of no live job"] == 1


def test_queue_changes_are_forwarded_in_order_to_every_cluster() -> None:
    world = VirtualFederation(members=TWO)
    world.change("a")
    world.change("b")
    world.settle()
    forwarded = [(fact.subject_id, fact.cluster) for fact in world.log if fact.name == "change-forwarded"]
    assert forwarded == [("a", "near"), ("a", "atlas"), ("b", "near"), ("b", "atlas")]


def test_reservations_and_their_ends_are_forwarded_in_order_to_every_cluster() -> None:
    world = VirtualFederation(members=TWO)
    world.reserve("night")
    world.end("night")
    world.settle()
    said = [fact for fact in world.log if fact.writer == "federation"]
    assert [(fact.name, fact.cluster) for fact in said] == [
        ("reserve-forwarded", "near"), ("reserve-forwarded", "atlas"),
        ("end-forwarded", "near"), ("end-forwarded", "atlas"),
    ]  # fmt: skip
    asked, ended = (world.last(name, "night").payload for name in ("reserve-forwarded", "end-forwarded"))
    assert (asked.principal, asked.spec.gpus, ended.principal, ended.reason) == ("root", 8, "root", "enough")
    assert said[0].causes == (world.last("reserve-requested", "night").id,)


def test_what_is_asked_of_devices_is_forwarded_in_order_to_every_cluster_with_its_trace() -> None:
    world = VirtualFederation(members=TWO)
    asked = [world.compose("r1"), world.decompose("r1"), world.detach("GPU-1")]
    world.settle()
    said = [fact for fact in world.log if fact.writer == "federation"]
    assert [(fact.kind, fact.subject_id, fact.name) for fact in said[::2]] == [
        ("composability", "r1", "compose-forwarded"),
        ("composability", "r1", "decompose-forwarded"),
        ("device", "GPU-1", "detach-forwarded"),
    ]
    assert [fact.cluster for fact in said] == ["near", "atlas"] * 3
    assert [(fact.payload, fact.causes) for fact in said[::2]] == [(fact.payload, (fact.id,)) for fact in asked]
    assert said[0].trace == "t-compose"


def test_what_is_asked_of_one_clusters_devices_reaches_that_one_alone() -> None:
    world = VirtualFederation(members=TWO)
    asked = [
        world.compose("r1", cluster="near"),
        world.decompose("r1", cluster="near"),
        world.detach("GPU-1", cluster="atlas"),
    ]
    world.core = world.recover()
    world.settle()
    said = [fact for fact in world.log if fact.writer == "federation" and fact.name.endswith("-forwarded")]
    assert [(fact.name, fact.cluster) for fact in said] == [
        ("compose-forwarded", "near"), ("decompose-forwarded", "near"), ("detach-forwarded", "atlas")
    ]  # fmt: skip
    assert [(fact.payload, fact.causes) for fact in said] == [(fact.payload, (fact.id,)) for fact in asked]


def test_what_names_a_cluster_that_is_no_member_is_forwarded_to_nobody() -> None:
    world = VirtualFederation()
    world.compose("r1", cluster="elsewhere")
    world.compose("r2")
    world.settle()
    said = [fact for fact in world.log if fact.name == "compose-forwarded"]
    assert [(fact.subject_id, fact.cluster) for fact in said] == [("r2", "atlas")]
    assert world.core.state.devices == {}
    assert world.core.state.anomalies == {"compose-requested for a cluster that is no member": 1}


def test_a_cluster_s_report_ends_the_job_whatever_comes_twice() -> None:
    world, one = VirtualFederation(), job("one")
    world.submit(one)
    world.settle()
    report = world.report(one, "failed")
    world.copy(report)
    world.copy(report)
    assert world.core.state.jobs[one.id].phase is Phase.FAILED
    assert world.core.state.anomalies["job-ended out of turn"] == 1
    ended = world.last("job-ended", one.id)
    assert (ended.payload.source_seq, ended.causes, ended.cluster) == (report.seq, (report.id,), "")


def test_an_older_summary_does_not_replace_a_newer_one() -> None:
    world = VirtualFederation()
    for seq in (5, 4):
        said = ClusterSummary(cluster="atlas", nodes=seq, source_seq=seq)
        world.write("federation", "cluster", "atlas", "cluster-summarised", said)
    assert world.core.state.clusters["atlas"].nodes == 5


def test_ids_of_copies_name_their_source() -> None:
    assert copy_id("FED_UP", 7) == copy_id("FED_UP", 7) != copy_id("FED_UP", 8)


def test_a_checkpoint_is_requested_when_enough_was_folded() -> None:
    world = VirtualFederation(checkpoint_every_facts=10)
    for index in range(30):
        world.submit(job(f"j{index}"))
        world.settle()
    asked = [fact for fact in world.log if fact.name == "checkpoint-requested"]
    assert 4 <= len(asked) <= 7
    assert asked[0].subject_id == "fed"


def test_what_one_decision_leaves_over_the_next_one_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "DRAFTS_MAX", 3)
    world = VirtualFederation()
    for index in range(7):
        world.submit(job(f"j{index}"))
    assert len(world.decide_once("federation")) == 3
    assert world.core.next_wakeup() == START
    world.settle()
    assert world.core.next_wakeup() is None
    assert sum(fact.name == "routed" for fact in world.log) == 7


def test_ended_jobs_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "ENDED_KEPT", 5)
    world = VirtualFederation()
    for index in range(20):
        one = job(f"j{index}")
        world.submit(one)
        world.settle()
        world.copy(world.report(one))
    assert len(world.core.state.jobs) == len(world.core.state.ended) == 5
    assert one.id in world.core.state.jobs


JOBS = [job(f"j{index}") for index in range(4)]
_ASK: dict[str, Callable[[VirtualFederation, str], object]] = {
    "change": VirtualFederation.change,
    "reserve": VirtualFederation.reserve,
    "end": VirtualFederation.end,
    "compose": VirtualFederation.compose,
    "decompose": VirtualFederation.decompose,
    "detach": VirtualFederation.detach,
}
_EVENT_NAMES = ("submit", "cancel", "requeue", "edit", *Ask, *_ASK, "report", "decide", "recover")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(_EVENT_NAMES),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(EVENTS)
def test_every_job_is_routed_or_cancelled_once_whatever_happens_in_which_order(events: list[tuple[str, int]]) -> None:
    world = VirtualFederation()
    for event, index in events:
        one = JOBS[index]
        match event:
            case "submit":
                world.submit(one)
            case "cancel":
                world.cancel(one)
            case "requeue":
                world.requeue(one)
            case "edit":
                world.edit(one, min_slice_s=float(index))
            case Ask.HOLD | Ask.RELEASE | Ask.PRIORITY:
                world.ask(one, Ask(event))
            case "report":
                world.copy(world.report(one))
            case "decide":
                drafts = world.core.decide(START)
                assert drafts == world.core.decide(START), "a decision changed what it was based on"
                world.decide_once("federation")
            case "recover":
                recovered = world.recover()
                assert belief(recovered) == belief(world.core)
                assert key(recovered.decide(START)) == key(world.core.decide(START))
                world.core = recovered
            case _:
                _ASK[event](world, str(index))
    world.settle()
    submitted = {fact.subject_id for fact in world.log if fact.name == "submitted"}
    for one in JOBS:
        ends = [name for name in world.names(one) if name in ("routed", "cancelled")]
        assert len(ends) == (one.id in submitted), "each accepted job goes to one cluster, or ends here"
        assert world.names(one).count("cancel-forwarded") <= 1
        newest_are_forwarded_once(world, one)
    for request in _ASK:
        forwarded_once_in_order(world, request)


ASKS = (*Ask, "requeue", "edit")


def newest_are_forwarded_once(world: VirtualFederation, one: Job) -> None:
    """Each is forwarded at most once and in order; of each sort the newest is, unless the job ended."""
    facts = [fact for fact in world.log if fact.subject_id == one.id]
    asked = {fact.id: fact for fact in facts if fact.name in [f"{ask}-requested" for ask in ASKS]}
    causes = [fact.causes[0] for fact in facts if fact.name in [f"{ask}-forwarded" for ask in ASKS]]
    assert len(set(causes)) == len(causes)
    assert set(causes) <= set(asked)
    record = world.core.state.jobs.get(one.id)
    if record is None or record.phase.is_terminal:
        return
    submitted_at = next(fact.seq for fact in facts if fact.name == "submitted")
    of_live = [fact for fact in asked.values() if fact.seq > submitted_at]
    for sort in (
        {"priority-requested"},
        {"requeue-requested"},
        {"edit-requested"},
        {"hold-requested", "release-requested"},
    ):
        newest = [fact.id for fact in of_live if fact.name in sort][-1:]
        assert set(newest) <= set(causes)


def forwarded_once_in_order(world: VirtualFederation, request: str) -> None:
    asked, forwarded = ([f for f in world.log if f.name == f"{request}-{how}"] for how in ("requested", "forwarded"))
    assert sorted(fact.causes for fact in forwarded) == sorted((fact.id,) for fact in asked)
    for about in {fact.subject_id for fact in asked}:
        causes = [fact.causes for fact in forwarded if fact.subject_id == about]
        assert causes == [(fact.id,) for fact in asked if fact.subject_id == about]


def test_edits_that_are_not_forwarded_yet_become_one() -> None:
    world, one = VirtualFederation(), JOBS[0]
    world.submit(one)
    world.edit(one, total_run_time_s=60.0, min_slice_s=5.0)
    last = world.edit(one, min_slice_s=7.0)
    world.settle()
    forwarded = world.last("edit-forwarded", one.id)
    assert forwarded.causes == (last.id,)
    assert (forwarded.payload.total_run_time_s, forwarded.payload.min_slice_s) == (60.0, 7.0)


def key(drafts: list[Draft]) -> list[tuple[object, ...]]:
    return sorted((draft.kind, draft.subject_id, draft.name, draft.causes, draft.cluster) for draft in drafts)
