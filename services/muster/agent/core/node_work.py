"""Actions and checks on nodes outside of jobs: each request is carried out once, and its end reported once.

A request has an id per node, so its sender may repeat it. The newest ended ids are kept, also in checkpoints, so that a
late repetition is not carried out again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.agent.core.cluster import Cluster, WorkOnNode, WorkSeen
from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.schemas.facts.operations import (
    ActionOutcome,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
    NodeWorkState,
)
from muster.schemas.registry import STATE_NAME

ENDED_MAX = 4096
"""Ended requests that are remembered, over all nodes."""
REPAIRS = frozenset({NodeAction.RESET, NodeAction.REBOOT, NodeAction.REPLACE})
"""Actions after which hardware is replaced or reset."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Work:
    """One open request; `fact` is the request's, of time `at`."""

    asked: NodeActionRequested | ChecksRequested
    fact: str
    trace: str
    at: Instant


@dataclass(frozen=True, slots=True)
class Ended:
    """One ended request; `is_repair`: the node's hardware was replaced or reset."""

    at: Instant
    is_repair: bool = False


class NodeWork:
    """Folds requests: `open` by node and request, and the newest `ended`."""

    FOLDS = Folds["NodeWork", bool]()

    def __init__(self, cluster: Cluster) -> None:
        self.open: dict[Key, Work] = {}
        self.ended: dict[Key, Ended] = {}
        self._cluster = cluster

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        for (node, request_id), work in self.open.items():
            asked = work.asked
            state = NodeWorkState(
                node=node,
                request_id=request_id,
                fact=work.fact,
                trace=work.trace,
                action=asked if isinstance(asked, NodeActionRequested) else None,
                checks=asked if isinstance(asked, ChecksRequested) else None,
                requested_at=work.at,
            )
            yield Draft("work", _subject(node, request_id), STATE_NAME, state)
        for (node, request_id), ended in self.ended.items():
            state = NodeWorkState(node=node, request_id=request_id, ended_at=ended.at, is_repair=ended.is_repair)
            yield Draft("work", _subject(node, request_id), STATE_NAME, state)

    @FOLDS.on("node", ("action-requested", "checks-requested"), (NodeActionRequested, ChecksRequested))
    def _asked(self, fact: Fact, asked: NodeActionRequested | ChecksRequested) -> bool:
        key = (fact.subject_id, asked.request_id)
        if key not in self.open and key not in self.ended:
            self._begin(key, Work(asked, fact.id, fact.trace, fact.time))
        return True

    def _begin(self, key: Key, work: Work) -> None:
        self.open[key] = work
        self._cluster.carry_out(WorkOnNode(*key, work.at, work.asked))

    @FOLDS.on("node", ("action-ended", "checks-reported"), (NodeActionEnded, ChecksReported))
    def _over(self, fact: Fact, ended: NodeActionEnded | ChecksReported) -> bool:
        key = (fact.subject_id, ended.request_id)
        work = self.open.pop(key, None)
        if work is None:
            return False
        is_done = isinstance(ended, NodeActionEnded) and ended.outcome is ActionOutcome.DONE
        is_repair = is_done and isinstance(work.asked, NodeActionRequested) and work.asked.action in REPAIRS
        self._remember(key, Ended(fact.time, is_repair))
        self._cluster.acknowledge(WorkSeen(*key, ended), at=fact.time)
        return True

    def _remember(self, key: Key, ended: Ended) -> None:
        self.ended[key] = ended
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    @FOLDS.on("work", STATE_NAME, NodeWorkState)
    def _state(self, _fact: Fact, state: NodeWorkState) -> bool:
        key = (state.node, state.request_id)
        asked = state.action or state.checks
        if asked is not None:
            self._begin(key, Work(asked, state.fact, state.trace, Instant(state.requested_at)))
            return True
        at = Instant(state.ended_at)
        self._remember(key, Ended(at, state.is_repair))
        if state.is_repair:  # no other fact records the repair
            ended = NodeActionEnded(request_id=state.request_id, outcome=ActionOutcome.DONE)
            self._cluster.acknowledge(WorkSeen(*key, ended), at=at)
        return True


def _subject(node: str, request_id: str) -> str:
    return f"{node}/{request_id}"
