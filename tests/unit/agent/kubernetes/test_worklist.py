"""One list of calls: one per purpose at a time, asked again where nobody answered, told once."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from muster.agent.core.kubernetes.calls import Delete, Done, Kind, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.worklist import BACKOFF_S_MAX, Purpose, Worklist
from muster.core import Instant, after
from unit.agent.kubernetes.rig import at

CALL = Delete(Kind.PODS, "jobs", "a")


@dataclass(frozen=True, slots=True)
class Errand(Purpose):
    name: object
    note: str = field(default="", compare=False)


A, B = Errand("a"), Errand("b")


@dataclass(frozen=True, slots=True)
class OtherErrand(Purpose):
    name: str


class Told:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.purposes: list[Purpose] = []

    def answered(self, purpose: Purpose, outcome: Outcome, now: Instant) -> None:
        self.purposes.append(purpose)
        self.outcomes.append(outcome)


def worklist() -> tuple[Worklist, Told]:
    """With a part that is told what comes of errands."""
    work, told = Worklist(), Told()
    work.serve(told, Errand)
    return work, told


def test_one_purpose_has_one_call_at_a_time() -> None:
    work, _ = worklist()
    assert work.ask(A, CALL)
    assert not work.ask(A, CALL)
    task = work.take(at(0))
    assert task is not None
    assert not work.ask(A, CALL)
    work.finished(task, Done(), at(1))
    assert work.ask(A, CALL)


def test_the_part_that_asks_for_such_purposes_is_told_with_all_that_it_said() -> None:
    work, told = worklist()
    other = Told()
    work.serve(other, OtherErrand)
    work.ask(Errand("a", "noted"), CALL)
    assert not work.ask(A, CALL), "what is not compared makes no other purpose of it"
    work.ask(OtherErrand("a"), CALL)
    while (task := work.take(at(0))) is not None:
        work.finished(task, Done(), at(0))
    assert [getattr(one, "note", "") for one in told.purposes] == ["noted"]
    assert other.purposes == [OtherErrand("a")]


def test_what_nobody_answered_is_asked_again_and_not_told() -> None:
    work, told = worklist()
    work.ask(A, CALL)
    now = at(0)
    for _ in range(12):
        task = work.take(now)
        assert task is not None
        work.finished(task, Unanswered(), now)
        assert work.take(now) is None
        now = after(now, BACKOFF_S_MAX)
    assert told.outcomes == []


def test_what_finishes_something_goes_before_what_begins_more() -> None:
    work, _ = worklist()
    for name in "abc":
        work.ask(Errand(name), CALL)
    work.ask(Errand("bind"), CALL, is_urgent=True)
    taken = [task.purpose for task in iter(lambda: work.take(at(0)), None)]
    assert taken == [Errand("bind"), A, B, Errand("c")]


def test_it_waits_as_long_as_the_server_says() -> None:
    work, _ = worklist()
    work.ask(A, CALL)
    task = work.take(at(0))
    assert task is not None
    work.finished(task, Unanswered(retry_after_s=30.0), at(0))
    assert work.take(at(29)) is None
    assert work.take(at(30)) is task


def test_a_cancelled_call_that_waits_is_never_made() -> None:
    work, told = worklist()
    work.ask(A, CALL)
    assert work.cancel(A)
    assert work.take(at(0)) is None
    assert told.outcomes == []


def test_a_cancelled_call_under_way_is_told_whatever_came_of_it() -> None:
    for outcome in (Done(), Refused(404), Unanswered()):
        work, told = worklist()
        work.ask(A, CALL)
        task = work.take(at(0))
        assert task is not None
        assert not work.cancel(A)
        work.finished(task, outcome, at(1))
        assert told.outcomes == [outcome]
        assert work.take(at(100)) is None


def test_an_outcome_of_another_life_counts_for_nothing() -> None:
    work, told = worklist()
    work.ask(A, CALL)
    task = work.take(at(0))
    assert task is not None
    work.clear()
    work.ask(A, CALL)
    work.finished(task, Done(), at(1))
    assert told.outcomes == []
    assert work.take(at(1)) is not None


@given(st.lists(st.tuples(st.sampled_from(("ask", "cancel", "done", "unanswered", "later")), st.integers(0, 3))))
def test_every_call_is_told_at_most_once_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    (work, told), now = worklist(), at(0)
    asked = cancelled = 0
    for step, key in steps:
        now = after(now, 20.0)
        match step:
            case "ask":
                asked += work.ask(Errand(key), CALL)
            case "later":
                asked += work.ask(Errand(key), CALL, at=after(now, 60.0))
            case "cancel":
                cancelled += work.asks(Errand(key)) and work.cancel(Errand(key))
            case _ if (task := work.take(now)) is not None:
                work.finished(task, Done() if step == "done" else Unanswered(), now)
    now = after(now, 1000.0)
    while (task := work.take(now)) is not None:
        work.finished(task, Done(), now)
    assert len(told.outcomes) == asked - cancelled
    assert len(work) == 0
