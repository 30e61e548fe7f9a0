"""The real composer beside one part of the agent, run until neither has anything to do."""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from kit.composer import VirtualComposer
from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.calls import Outcome
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant

ROUNDS_MAX = 200


class Part(Protocol):
    """What the agent does for one kind of objects."""

    def settle(self, now: Instant) -> None: ...

    def observations(self) -> Iterable[WordSeen]: ...

    def acknowledge(self, seen: WordSeen) -> None: ...


PartT = TypeVar("PartT", bound=Part)


class AgentHarness(VirtualComposer, Generic[PartT]):
    """part, worklist: the agent's. What the API server answers to its calls, and shows then, is for the class below."""

    part: PartT
    worklist: Worklist

    def answer(self, call: object) -> Outcome:
        raise NotImplementedError

    def answered(self) -> None:
        """A call is over: what the API server shows of it by itself."""

    def run(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.part.settle(self.now)
            news = list(self.part.observations())
            for seen in news:
                self.write("agent", seen.kind, seen.subject, seen.name, seen.payload)
                self.part.acknowledge(seen)
            task = self.worklist.take(self.now)
            if task is not None:
                self.worklist.finished(task, self.answer(task.call), self.now)
                self.answered()
            if not self.settle() and not news and task is None:
                return
        raise AssertionError("no end")
