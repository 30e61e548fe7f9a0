"""What objects are told: one thing at a time, and in the end the newest."""

import pytest

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.calls import Call, Done, Kind, Merge, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.worklist import Task, Worklist
from muster.agent.core.workloads.adopted_pods import ObjectRequest, ObjectRequests, PatchObject
from muster.core import Instant
from muster.schemas.job import JobSpec, Slot, TaskGroup

NOW, MUCH_LATER = Instant(1), Instant(10**12)
SPEC = JobSpec(name="j", team="physics", task_groups=(TaskGroup(),))
ORDER = CreatePods("J" * 26, 1, NOW, (Slot(group=0, replica=0, node="n0"),), SPEC)


class Told:
    """OpenDrains of one object, and which were refused."""

    def __init__(self) -> None:
        self.worklist = Worklist()
        self.worklist.serve(self, PatchObject)
        self.requests = ObjectRequests(self.worklist)
        self.refused: list[str] = []

    def request(self, name: str, *, lets_go: bool = False) -> None:
        self.requests.send("u-1", ObjectRequest(Merge(Kind.JOBS, "physics", name, {}), ORDER, lets_go=lets_go))

    def answered(self, purpose: PatchObject, outcome: Outcome, now: Instant) -> None:
        request = self.requests.answered(purpose, outcome)
        if request is not None and isinstance(outcome, Refused):
            self.refused.append(f"{request.call.name}: {outcome.message}")

    def take(self) -> Task:
        task = self.worklist.take(MUCH_LATER)
        assert task is not None
        return task

    def finish(self, task: Task, outcome: Outcome) -> None:
        self.worklist.finished(task, outcome, NOW)

    def rest(self) -> list[Call]:
        """All that is left to be done, done."""
        found = []
        while (task := self.worklist.take(MUCH_LATER)) is not None:
            found.append(task.call)
            self.finish(task, Done())
        return found


ANSWERS = [Done(), Refused(403, "Forbidden", "no"), Unanswered("timed out")]


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_newest_is_told_once_the_one_under_way_is_over(answer: Outcome) -> None:
    told = Told()
    told.request("first")
    under_way = told.take()
    told.request("second")
    told.request("third")
    assert told.worklist.take(MUCH_LATER) is None, "two at a time could be carried out in either order"
    told.finish(under_way, answer)
    assert [call.name for call in told.rest() if isinstance(call, Merge)] == ["third"]
    assert told.refused == [], "nobody requests for the first any more"


def test_what_waits_is_replaced() -> None:
    told = Told()
    told.request("first")
    told.request("second")
    assert [call.name for call in told.rest() if isinstance(call, Merge)] == ["second"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_letting_go_is_withdrawn_and_nothing_else(answer: Outcome) -> None:
    told = Told()
    told.request("go", lets_go=True)
    told.requests.withdraw_letting_go("u-1")
    assert told.rest() == []
    told.request("go", lets_go=True)
    under_way = told.take()
    told.requests.withdraw_letting_go("u-1")
    told.finish(under_way, answer)
    assert told.rest() == [], "it is not repeated either"
    told.request("hold")
    told.requests.withdraw_letting_go("u-1")
    assert len(told.rest()) == 1


def test_who_requested_is_told_of_a_refusal() -> None:
    told = Told()
    told.request("go", lets_go=True)
    told.finish(told.take(), Refused(403, "Forbidden", "no"))
    assert told.refused == ["go: no"]
    assert told.rest() == []
