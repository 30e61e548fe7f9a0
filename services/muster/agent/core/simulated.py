"""A cluster that exists only as a function of seeds and of the times of facts.

It stores no truth: a restarted agent folds its log into an empty one and has the same cluster, with every pod where it
was. Each future event is on a heap by its time; the work depends on the number of events, not of nodes and pods.
`SimulatedWork` simulates work on nodes.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.checking import action_ended, action_s, checks_s, requested_of, results_of
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
    checks_seen,
    on_grid,
)
from muster.agent.core.fleet import Groups
from muster.agent.core.node_work import REPAIRS
from muster.agent.core.simulated_nodes import SimulatedNodes
from muster.agent.core.simulated_pods import SimulatedPods, Step, new_pods
from muster.core import Instant, after
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
)

COMPONENTS = frozenset({NodeAction.DRIVER, NodeAction.DEVICE_PLUGIN, NodeAction.KUBELET, NodeAction.OS})
"""Actions that install a version of the component of that name."""
_WorkKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Work:
    effect: WorkOnNode
    takes_s: float
    due: Instant


class SimulatedWork:
    """Simulates work on nodes; `repaired` are nodes whose hardware was replaced or reset."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.repaired: set[str] = set()
        self._behaviour = behaviour
        self._under_way: dict[_WorkKey, _Work] = {}
        self._heap: list[tuple[Instant, _WorkKey]] = []  # entries that are not under way any more are stale
        self._seen: dict[_WorkKey, WorkSeen] = {}

    def carry_out(self, effect: WorkOnNode) -> None:
        """Begin at once, and end in time."""
        key = (effect.node, effect.request_id)
        if key in self._under_way:
            return
        takes_s = self._takes_s(effect)
        due = on_grid(after(effect.at, min(takes_s, effect.asked.limit_s)))
        self._under_way[key] = _Work(effect, takes_s, due)
        heapq.heappush(self._heap, (due, key))

    def observe(self, now: Instant) -> Iterator[WorkSeen]:
        """Yield what has ended by `now` and is not acknowledged."""
        while self._heap and self._heap[0][0] <= now:
            _, key = heapq.heappop(self._heap)
            if key in self._under_way:
                self._seen[key] = self._ended(self._under_way[key])
        return iter(self._seen.values())

    def acknowledge(self, seen: WorkSeen) -> tuple[str, str] | None:
        """Record that the log has it. Return the component with a new version, and the version, if any."""
        key = (seen.node, seen.request_id)
        self._seen.pop(key, None)
        work = self._under_way.pop(key, None)
        if not isinstance(seen.ended, NodeActionEnded) or seen.ended.outcome is not ActionOutcome.DONE:
            return None
        if work is None:  # a checkpoint records only repairs
            self.repaired.add(seen.node)
            return None
        asked = work.effect.asked
        assert isinstance(asked, NodeActionRequested), "checks do not end as actions"
        if asked.action in REPAIRS:
            self.repaired.add(seen.node)
        return (asked.action.value, seen.ended.version) if asked.action in COMPONENTS and seen.ended.version else None

    def next_change(self) -> Instant | None:
        """Return when `observe` could return more."""
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


STALE_MAX = 1000  # stale heap entries allowed beyond twice the number of pods

_Key = tuple[str, int]


@dataclass(slots=True)
class _Pods:
    """One attempt's pods, and their next observable step at `due`; None: none until a request."""

    life: SimulatedPods
    step: Step
    due: Instant | None


class SimulatedCluster:
    """A simulated cluster of a fleet (descriptions by node name) and of node groups."""

    def __init__(self, fleet: Mapping[str, NodeJoined], behaviour: Behaviour, groups: Groups | None = None) -> None:
        self._behaviour = behaviour
        self._nodes = SimulatedNodes(fleet, behaviour, groups or Groups())
        self._work = SimulatedWork(behaviour)
        self._pods: dict[_Key, _Pods] = {}
        self._heap: list[tuple[Instant, _Key]] = []  # entries whose moment is no longer their subject's are stale
        self._seen: dict[_Key, Instant] = {}  # in the order seen: since when it is so

    def carry_out(self, effect: Effect) -> None:
        """Accept an effect."""
        if isinstance(effect, PodsEffect):
            self._carry_out_pods(effect)
        elif isinstance(effect, WorkOnNode):
            self._work.carry_out(effect)
        else:
            self._nodes.carry_out(effect)

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Return unacknowledged observations."""
        nodes = self._nodes.observe(now)
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if not self._is_stale(due, key):
                self._seen[key] = due
        work = self._work.observe(now)
        pods = itertools.chain.from_iterable(self._pods_observations(self._pods[key]) for key in self._seen)
        return tuple(itertools.islice(itertools.chain(nodes, work, pods), OBSERVATIONS_MAX))

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        """Record that the log has an observation."""
        match observation:
            case PodsStartedSeen() | CheckpointSeen() | PodsResizedSeen() | ChecksSeen():
                self._acknowledge_step(observation, at)
            case PodsExitedSeen():
                key = (observation.job_id, observation.attempt)
                self._pods.pop(key, None)
                self._seen.pop(key, None)
            case ClusterSeen() | WordSeen():
                pass  # it emits no description
            case WorkSeen():
                if (component := self._work.acknowledge(observation)) is not None:
                    self._nodes.set_version(observation.node, *component)
            case _:
                self._nodes.acknowledge(observation, at)

    def next_change(self) -> Instant | None:
        """Return the time of the next event."""
        while self._heap and self._is_stale(*self._heap[0]):
            heapq.heappop(self._heap)
        pods = next(iter(self._seen.values()), self._heap[0][0] if self._heap else None)
        nodes, work = self._nodes.next_change(), self._work.next_change()
        return min((moment for moment in (nodes, work, pods) if moment is not None), default=None)

    def _carry_out_pods(self, effect: PodsEffect) -> None:
        key = (effect.job_id, effect.attempt)
        pods = self._pods.get(key)
        match effect:
            case CreatePods() if pods is None:
                life = new_pods(self._behaviour, effect)
                self._pods[key] = made = _Pods(life, Step.START, None)
                self._look_again(key, made)
            case OpenGate() if pods is not None and pods.life.open(self._behaviour, effect.at):
                self._look_again(key, pods)
            case DeletePods() if pods is not None and pods.life.delete(self._behaviour, effect):
                self._look_again(key, pods)
            case ResizePods() if pods is not None and pods.life.ask_resize(self._behaviour, effect):
                self._look_again(key, pods)

    def _acknowledge_step(
        self, observation: PodsStartedSeen | CheckpointSeen | PodsResizedSeen | ChecksSeen, at: Instant
    ) -> None:
        key = (observation.job_id, observation.attempt)
        pods = self._pods.get(key)
        if pods is None:
            return
        match observation:
            case PodsStartedSeen():
                has_moved = pods.life.start(self._behaviour, at)
            case PodsResizedSeen():
                has_moved = pods.life.resized()
            case ChecksSeen():
                has_moved = observation.is_last and pods.life.checked()
            case CheckpointSeen():
                pods.life.checkpointed(self._behaviour, at)
                has_moved = True
        if has_moved:
            self._look_again(key, pods)

    def _look_again(self, key: _Key, pods: _Pods) -> None:
        """Recompute the next step; it replaces an observation that is not acknowledged."""
        pods.step, at = pods.life.next_step(self._behaviour)
        self._seen.pop(key, None)
        pods.due = None if at is None else on_grid(at)
        if pods.due is not None:
            self._push(key, pods.due)

    def _push(self, key: _Key, due: Instant) -> None:
        heapq.heappush(self._heap, (due, key))
        if len(self._heap) > 2 * len(self._pods) + STALE_MAX:
            self._heap = [entry for entry in self._heap if not self._is_stale(*entry)]
            heapq.heapify(self._heap)

    def _is_stale(self, due: Instant, key: _Key) -> bool:
        pods = self._pods.get(key)
        return pods is None or pods.due != due

    def _pods_observations(self, pods: _Pods) -> Iterable[Observation]:
        effect = pods.life.effect
        match pods.step:
            case Step.START:
                return (PodsStartedSeen(effect.job_id, effect.attempt, self._device_uuids(effect)),)
            case Step.CHECKS:
                return checks_seen(effect.job_id, effect.attempt, self._results(effect))
            case Step.CHECKPOINT:
                return (CheckpointSeen(effect.job_id, effect.attempt),)
            case Step.RESIZE:
                wanted = pods.life.resize
                return (PodsResizedSeen(effect.job_id, effect.attempt, len(wanted.slots) if wanted is not None else 0),)
            case Step.EXIT:
                return (pods.life.exited(),)

    def _results(self, effect: CreatePods) -> tuple[CheckResult, ...]:
        assert effect.preflight is not None, "only what has a plan is checked"
        found = results_of(
            self._behaviour.work,
            effect.preflight.checks,
            tuple(dict.fromkeys(slot.node for slot in effect.slots)),
            seed=self._behaviour.seed,
            purpose=f"{effect.job_id}/{effect.attempt}",
            repaired=self._work.repaired,
            wished=requested_of(effect.spec, effect.attempt),
        )
        return tuple(found)

    def _device_uuids(self, effect: CreatePods) -> tuple[tuple[str, ...], ...]:
        return tuple(self._nodes.device_uuids(slot) for slot in effect.slots)
