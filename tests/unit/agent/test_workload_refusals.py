"""Objects that the gateway refused: when they are asked for again, and what ends that."""

import pytest

from kit.agent_workloads import SPEC, UNFIT, WatchingAgent, seen
from muster.agent.core.workload_values import REFUSED, Shown, WorkloadKind, WorkloadView
from muster.agent.core.workloads.log import AGAIN_S, AGAIN_S_MAX, PER_S, SOON_S
from muster.schemas.facts.queue import QueueChanged, QueueSpec
from muster.schemas.facts.workload import WorkloadState
from muster.schemas.job import JobSpec


@pytest.fixture
def agent() -> WatchingAgent:
    return WatchingAgent()


def refused(uid: str = "u-1", *, asks: JobSpec | None = SPEC, **rest: object) -> WorkloadView:
    """The object shows that it is refused."""
    return seen(uid, asks=asks, shown=Shown(job_id="J", phase=REFUSED), **rest)


def wishes(agent: WatchingAgent, uid: str = "u-1") -> int:
    return agent.names(uid).count("submit-requested")


def refuse(agent: WatchingAgent, uid: str = "u-1") -> None:
    agent.refuse(uid)
    agent.see(refused(uid))


def test_a_refused_object_is_asked_for_again_after_a_while_and_seldomer_each_time(agent: WatchingAgent) -> None:
    agent.see(seen())
    waited = []
    for _ in range(8):
        refuse(agent)
        before, seconds = wishes(agent), 0.0
        while wishes(agent) == before:
            agent.advance(1.0)
            seconds += 1.0
        waited.append(seconds)
    assert waited == [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, AGAIN_S_MAX, AGAIN_S_MAX]


def test_it_is_the_same_job_and_becomes_one_when_it_is_accepted(agent: WatchingAgent) -> None:
    agent.see(seen())
    first = agent.asked().job_id
    refuse(agent)
    agent.advance(AGAIN_S)
    assert agent.accept().id == first
    record = agent.workloads.records["u-1"]
    assert record.refused is None
    agent.advance(AGAIN_S_MAX)
    assert wishes(agent) == 2, "an accepted job is asked for no more"


def test_nothing_is_asked_while_an_answer_is_awaited(agent: WatchingAgent) -> None:
    agent.see(seen())
    refuse(agent)
    agent.advance(AGAIN_S_MAX * 3)
    assert wishes(agent) == 2


def test_an_object_that_asks_for_something_else_is_asked_for_at_once(agent: WatchingAgent) -> None:
    agent.see(seen())
    refuse(agent)
    other = SPEC.model_copy(update={"queue": "green"})
    agent.see(refused(asks=other))
    agent.advance(SOON_S)
    assert wishes(agent) == 2
    assert agent.asked().spec.queue == "green"


def test_an_object_that_became_impossible_waits_until_it_is_mended(agent: WatchingAgent) -> None:
    agent.see(seen())
    refuse(agent)
    agent.see(refused(asks=UNFIT))  # type: ignore[arg-type] - what can be no job
    agent.advance(AGAIN_S * 4)
    assert wishes(agent) == 1
    agent.see(refused())
    assert wishes(agent) == 2


def test_its_queue_appears_and_it_is_asked_for(agent: WatchingAgent) -> None:
    agent.see(seen())
    for _ in range(4):
        refuse(agent)
        agent.advance(AGAIN_S_MAX)
    refuse(agent)
    before = wishes(agent)
    for name in ("other", "blue"):
        agent.write("scheduler", "queue", name, "changed", QueueChanged(spec=QueueSpec(name=name)))
        agent.advance(SOON_S)
        assert wishes(agent) == before + (name == "blue")


def test_many_that_are_refused_do_not_ask_together(agent: WatchingAgent) -> None:
    for number in range(100):
        agent.see(seen(f"u-{number}"))
    for number in range(100):
        refuse(agent, f"u-{number}")
    counts = []
    for _ in range(70):
        before = len(agent.facts("submit-requested"))
        agent.advance(1.0)
        counts.append(len(agent.facts("submit-requested")) - before)
    assert sum(counts) == 100
    assert max(counts) <= PER_S


def test_a_refused_object_that_goes_is_settled_and_asked_for_no_more(agent: WatchingAgent) -> None:
    agent.see(seen())
    refuse(agent)
    agent.lose("u-1")
    agent.advance(AGAIN_S_MAX)
    assert agent.names() == ["submit-requested", "settled"]
    assert agent.core.next_wakeup() is None


def test_an_object_that_goes_while_it_is_asked_for_again_waits_for_the_answer(agent: WatchingAgent) -> None:
    """Else its job could be accepted with nobody to cancel it."""
    agent.see(seen())
    refuse(agent)
    agent.advance(AGAIN_S)
    agent.lose("u-1")
    assert agent.names() == ["submit-requested"] * 2
    agent.accept()
    assert agent.names() == ["submit-requested", "submit-requested", "cancel-requested"]


def test_the_answer_to_a_wish_before_the_last_one_counts_for_nothing(agent: WatchingAgent) -> None:
    agent.see(seen())
    first = agent.wish().id
    refuse(agent)
    agent.advance(AGAIN_S)
    agent.refuse(wish=first)
    assert agent.workloads.records["u-1"].asked_again
    agent.refuse()
    assert agent.workloads.records["u-1"].is_refused


def test_a_new_leader_and_a_checkpoint_know_when_it_is_due(agent: WatchingAgent) -> None:
    agent.see(seen())
    refuse(agent)
    due = agent.workloads.records["u-1"].again_at
    agent.restart()
    agent.see(refused())
    assert agent.workloads.records["u-1"].again_at == due
    [state] = [draft for draft in agent.core.snapshot() if draft.kind == "workload"]
    assert isinstance(state.payload, WorkloadState)
    agent.recover_from_checkpoint([*agent.core.snapshot()])
    agent.advance(1.0)
    agent.see(refused())
    agent.advance(AGAIN_S)
    assert wishes(agent) == 2


def test_who_does_not_watch_asks_for_nothing_and_is_not_woken(agent: WatchingAgent) -> None:
    agent.see(seen())
    refuse(agent)
    agent.restart()
    agent.advance(AGAIN_S_MAX)
    assert wishes(agent) == 1


def test_a_rejected_object_tells_another_reason_of_the_same_generation(agent: WatchingAgent) -> None:
    """Labels change without a generation."""
    other = UNFIT.__class__("another", field="metadata.labels")
    for unfit in (UNFIT, UNFIT, other, other):
        agent.see(seen(kind=WorkloadKind.JOB, asks=unfit))
    assert agent.names() == ["rejected", "rejected"]


def test_who_does_not_watch_keeps_no_moments(agent: WatchingAgent) -> None:
    """They come when its object is seen: else each refusal of each day would wait for whoever leads next."""
    agent.see(seen())
    for _ in range(5):
        refuse(agent)
        agent.write("scheduler", "queue", "blue", "changed", QueueChanged(spec=QueueSpec(name="blue")))
        agent.advance(AGAIN_S_MAX)
    refuse(agent)
    standby = agent.new_core().workloads
    for fact in agent.log:
        standby.apply(fact)
    assert standby.records["u-1"].is_refused
    assert not standby.log.refusals._due
    standby.see(refused())
    assert len(standby.log.refusals._due) == 2
    standby.forget_views()
    assert not standby.log.refusals._due
