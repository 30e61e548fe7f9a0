"""One list of calls: one per key at a time, asked again where nobody answered, told once."""

from hypothesis import given
from hypothesis import strategies as st

from muster.agent.core.kubernetes.calls import Delete, Done, Kind, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.worklist import BACKOFF_S_MAX, Worklist
from muster.core import Instant, after
from unit.agent.kubernetes.rig import at

CALL = Delete(Kind.PODS, "jobs", "a")


class Told:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def __call__(self, outcome: Outcome, now: Instant) -> None:
        self.outcomes.append(outcome)


def test_one_key_has_one_call_at_a_time() -> None:
    work, told = Worklist(), Told()
    assert work.ask("a", CALL, told)
    assert not work.ask("a", CALL, told)
    task = work.take(at(0))
    assert task is not None
    assert not work.ask("a", CALL, told)
    work.finished(task, Done(), at(1))
    assert work.ask("a", CALL, told)


def test_what_nobody_answered_is_asked_again_and_not_told() -> None:
    work, told = Worklist(), Told()
    work.ask("a", CALL, told)
    now = at(0)
    for _ in range(12):
        task = work.take(now)
        assert task is not None
        work.finished(task, Unanswered(), now)
        assert work.take(now) is None
        now = after(now, BACKOFF_S_MAX)
    assert told.outcomes == []


def test_what_finishes_something_goes_before_what_begins_more() -> None:
    work, told = Worklist(), Told()
    for name in "abc":
        work.ask(name, CALL, told)
    work.ask("bind", CALL, told, is_urgent=True)
    taken = [task.key for task in iter(lambda: work.take(at(0)), None)]
    assert taken == ["bind", "a", "b", "c"]


def test_it_waits_as_long_as_the_server_says() -> None:
    work, told = Worklist(), Told()
    work.ask("a", CALL, told)
    task = work.take(at(0))
    assert task is not None
    work.finished(task, Unanswered(retry_after_s=30.0), at(0))
    assert work.take(at(29)) is None
    assert work.take(at(30)) is task


def test_a_cancelled_call_that_waits_is_never_made() -> None:
    work, told = Worklist(), Told()
    work.ask("a", CALL, told)
    assert work.cancel("a")
    assert work.take(at(0)) is None
    assert told.outcomes == []


def test_a_cancelled_call_under_way_is_told_whatever_came_of_it() -> None:
    for outcome in (Done(), Refused(404), Unanswered()):
        work, told = Worklist(), Told()
        work.ask("a", CALL, told)
        task = work.take(at(0))
        assert task is not None
        assert not work.cancel("a")
        work.finished(task, outcome, at(1))
        assert told.outcomes == [outcome]
        assert work.take(at(100)) is None


def test_an_outcome_of_another_life_counts_for_nothing() -> None:
    work, told = Worklist(), Told()
    work.ask("a", CALL, told)
    task = work.take(at(0))
    assert task is not None
    work.clear()
    work.ask("a", CALL, told)
    work.finished(task, Done(), at(1))
    assert told.outcomes == []
    assert work.take(at(1)) is not None


@given(st.lists(st.tuples(st.sampled_from(("ask", "cancel", "done", "unanswered", "later")), st.integers(0, 3))))
def test_every_call_is_told_at_most_once_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    work, now = Worklist(), at(0)
    asked = told = cancelled = 0

    def tell(_: Outcome, __: Instant) -> None:
        nonlocal told
        told += 1

    for step, key in steps:
        now = after(now, 20.0)
        match step:
            case "ask":
                asked += work.ask(key, CALL, tell)
            case "later":
                asked += work.ask(key, CALL, tell, at=after(now, 60.0))
            case "cancel":
                cancelled += work.asks(key) and work.cancel(key)
            case _ if (task := work.take(now)) is not None:
                work.finished(task, Done() if step == "done" else Unanswered(), now)
    now = after(now, 1000.0)
    while (task := work.take(now)) is not None:
        work.finished(task, Done(), now)
    assert told == asked - cancelled
    assert len(work) == 0
