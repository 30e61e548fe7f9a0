"""A cluster whose jobs are local processes. Pure: orders out, events in.

It is the worked example of an adapter (docs/adapters.md): `Cluster` says what a batch system needs to become a cluster
of Muster, and this module shows an implementation.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.cluster import (
    OBSERVATIONS_MAX,
    CheckpointSeen,
    ChecksSeen,
    ClusterSeen,
    CreatePods,
    DeletePods,
    Effect,
    Observation,
    OpenGate,
    PodsEffect,
    PodsExitedSeen,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
    WordSeen,
    WorkOnNode,
    WorkSeen,
)
from muster.agent.core.fleet import Fleet, Groups
from muster.agent.core.local.attempt import NO_CHECKS, Attempt, Key, Order, StartProcess
from muster.agent.core.simulated_nodes import SimulatedNodes
from muster.core import Instant
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    NodeActionEnded,
    NodeActionRequested,
)
from muster.schemas.job import Slot

NO_ACTIONS = "this cluster has no way to work on its nodes"


class LocalCluster:
    """A cluster of local processes; `fleet` are the simulated nodes of the machine, which never fail.

    The sink takes orders while its service leads, and reports with `began`, `exited` and `saved`.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._nodes = SimulatedNodes(fleet, Behaviour(seed=0), Groups())
        self._attempts: dict[Key, Attempt] = {}
        self._work: dict[tuple[str, str], WorkSeen] = {}
        self._orders: deque[Order] = deque()

    def carry_out(self, effect: Effect) -> None:
        """Accept an effect."""
        if isinstance(effect, PodsEffect):
            self._carry_out_pods(effect)
        elif isinstance(effect, WorkOnNode):
            self._work.setdefault((effect.node, effect.request_id), _refused(effect))
        else:
            self._nodes.carry_out(effect)

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Return unacknowledged observations."""
        told = itertools.chain.from_iterable(
            attempt.observations(self._uuids(attempt)) for attempt in self._attempts.values()
        )
        return tuple(
            itertools.islice(itertools.chain(self._nodes.observe(now), self._work.values(), told), OBSERVATIONS_MAX)
        )

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        """Record that the log has an observation."""
        match observation:
            case PodsStartedSeen() | CheckpointSeen() | PodsResizedSeen() | ChecksSeen() | PodsExitedSeen():
                self._acknowledge_pods(observation)
            case WorkSeen():
                self._work.pop((observation.node, observation.request_id), None)
            case ClusterSeen() | WordSeen():
                pass  # it emits no description
            case _:
                self._nodes.acknowledge(observation, at)

    def next_change(self) -> Instant | None:
        """Return when there is something to report; nothing follows from time alone, and reports wake the service."""
        has_news = bool(self._work) or any(
            next(attempt.observations({}), None) is not None for attempt in self._attempts.values()
        )
        return Instant(0) if has_news else self._nodes.next_change()

    def take(self) -> Order | None:
        """Return the next order, None for none."""
        return self._orders.popleft() if self._orders else None

    def began(self, key: Key, slot: Slot, at: Instant) -> None:
        """Record that the process of the slot runs."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.began(slot, at)

    def exited(self, key: Key, slot: Slot, code: int, *, at: Instant, words: str = "") -> None:
        """Record its end; `code` is the exit code, or 128 and the number of the signal."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            self._give(attempt.exited(slot, code, at, words))

    def saved(self, key: Key) -> None:
        """Record a checkpoint of the attempt."""
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.ended is None:
            attempt.is_saved = True

    def reset(self, now: Instant) -> None:
        """Record that no process runs, because a leader term begins or ends."""
        self._orders.clear()
        for attempt in self._attempts.values():
            attempt.lost(now)
            self._give(attempt.starts(now, self._uuids(attempt)))

    def _carry_out_pods(self, effect: PodsEffect) -> None:
        key = (effect.job_id, effect.attempt)
        attempt = self._attempts.get(key)
        if isinstance(effect, CreatePods) and attempt is None:
            attempt = self._attempts[key] = Attempt(effect, is_open=effect.preflight is None)
        elif attempt is None:
            return
        match effect:
            case OpenGate():
                attempt.is_open = True
            case DeletePods():
                self._forget_starts(attempt)
                self._give(attempt.delete(effect))
            case ResizePods():
                self._give(attempt.change(effect))
            case CreatePods():
                pass
        self._give(attempt.starts(effect.at, self._uuids(attempt)))

    def _acknowledge_pods(
        self, seen: PodsStartedSeen | CheckpointSeen | PodsResizedSeen | ChecksSeen | PodsExitedSeen
    ) -> None:
        attempt = self._attempts.get((seen.job_id, seen.attempt))
        if attempt is None:
            return
        match seen:
            case PodsStartedSeen():
                attempt.is_told = True
            case CheckpointSeen():
                attempt.is_saved = False
            case PodsResizedSeen():
                attempt.resize = None
            case ChecksSeen():
                attempt.is_checked = attempt.is_checked or seen.is_last
            case PodsExitedSeen():
                self._forget_starts(attempt)
                del self._attempts[attempt.key]

    def _forget_starts(self, attempt: Attempt) -> None:
        """Drop orders that were not begun: recovery folds all past attempts."""
        kept: deque[Order] = deque()
        for order in self._orders:
            if isinstance(order, StartProcess) and order.key == attempt.key:
                attempt.asked.discard(order.slot)
            else:
                kept.append(order)
        self._orders = kept

    def _give(self, orders: Iterable[Order]) -> None:
        self._orders.extend(orders)

    def _uuids(self, attempt: Attempt) -> dict[Slot, tuple[str, ...]]:
        return {slot: self._nodes.device_uuids(slot) for slot in attempt.effect.slots}


def _refused(effect: WorkOnNode) -> WorkSeen:
    asked = effect.asked
    if isinstance(asked, NodeActionRequested):
        ended = NodeActionEnded(request_id=asked.request_id, outcome=ActionOutcome.CANNOT_RUN, detail=NO_ACTIONS)
        return WorkSeen(effect.node, effect.request_id, ended)
    results = tuple(
        CheckResult(node=effect.node, check=one.check, outcome=CheckOutcome.CANNOT_RUN, detail=NO_CHECKS)
        for one in asked.checks
    )
    return WorkSeen(effect.node, effect.request_id, ChecksReported(request_id=asked.request_id, results=results))
