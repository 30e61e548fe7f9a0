"""Work on nodes of the simulated cluster: when each request ends, and how."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.checking import action_ended, action_s, checks_s, results_of
from muster.agent.core.cluster import WorkOnNode, WorkSeen, on_grid
from muster.agent.core.node_work import REPAIRS
from muster.core import Instant, after
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
)

COMPONENTS = frozenset({NodeAction.DRIVER, NodeAction.DEVICE_PLUGIN, NodeAction.KUBELET, NodeAction.OS})
"""Actions that bring what they are named after to a version."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Work:
    effect: WorkOnNode
    takes_s: float
    due: Instant


class SimulatedWork:
    """repaired: nodes whose hardware was made another, or reset, since the first day."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.repaired: set[str] = set()
        self._behaviour = behaviour
        self._under_way: dict[_Key, _Work] = {}
        self._heap: list[tuple[Instant, _Key]] = []  # entries that are not under way any more are stale
        self._seen: dict[_Key, WorkSeen] = {}

    def carry_out(self, effect: WorkOnNode) -> None:
        """It begins at once, and ends in its time."""
        key = (effect.node, effect.request_id)
        if key in self._under_way:
            return
        takes_s = self._takes_s(effect)
        due = on_grid(after(effect.at, min(takes_s, effect.asked.limit_s)))
        self._under_way[key] = _Work(effect, takes_s, due)
        heapq.heappush(self._heap, (due, key))

    def observe(self, now: Instant) -> Iterator[WorkSeen]:
        """What has ended by `now` and is not acknowledged."""
        while self._heap and self._heap[0][0] <= now:
            _, key = heapq.heappop(self._heap)
            if key in self._under_way:
                self._seen[key] = self._ended(self._under_way[key])
        return iter(self._seen.values())

    def acknowledge(self, seen: WorkSeen) -> tuple[str, str] | None:
        """The log has it. Returns the component that has another version now, and which, if one has."""
        key = (seen.node, seen.request_id)
        self._seen.pop(key, None)
        work = self._under_way.pop(key, None)
        if not isinstance(seen.ended, NodeActionEnded) or seen.ended.outcome is not ActionOutcome.DONE:
            return None
        if work is None:  # a checkpoint tells only of repairs
            self.repaired.add(seen.node)
            return None
        asked = work.effect.asked
        assert isinstance(asked, NodeActionRequested), "checks do not end as actions"
        if asked.action in REPAIRS:
            self.repaired.add(seen.node)
        return (asked.action.value, seen.ended.version) if asked.action in COMPONENTS and seen.ended.version else None

    def next_change(self) -> Instant | None:
        """When `observe` could give more."""
        if self._seen:
            return Instant(0)
        while self._heap and self._heap[0][1] not in self._under_way:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _takes_s(self, effect: WorkOnNode) -> float:
        seed, work, purpose = self._behaviour.seed, self._behaviour.work, _purpose(effect)
        if isinstance(effect.asked, ChecksRequested):
            return checks_s(work, effect.asked.checks, seed=seed, purpose=purpose)
        return action_s(work, seed=seed, purpose=purpose)

    def _ended(self, work: _Work) -> WorkSeen:
        effect, asked = work.effect, work.effect.asked
        behaviour, seed, purpose = self._behaviour.work, self._behaviour.seed, _purpose(effect)
        ended: NodeActionEnded | ChecksReported
        if isinstance(asked, NodeActionRequested):
            ended = action_ended(behaviour, asked, seed=seed, purpose=purpose, took_s=work.takes_s)
        else:
            found = results_of(
                behaviour, asked.checks, (effect.node,), seed=seed, purpose=purpose, repaired=self.repaired
            )
            results = tuple(found)
            if work.takes_s > asked.limit_s:
                late = {"outcome": CheckOutcome.CANNOT_RUN, "detail": f"not done within {asked.limit_s:g} s"}
                results = tuple(one.model_copy(update=late) for one in results)
            ended = ChecksReported(request_id=asked.request_id, results=results)
        return WorkSeen(effect.node, effect.request_id, ended)


def _purpose(effect: WorkOnNode) -> str:
    return f"work/{effect.node}/{effect.request_id}"
