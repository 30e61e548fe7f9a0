"""A cluster that exists only as a function of seeds and of the times of facts.

It keeps no truth: an agent that was killed folds its log into an empty one of these and has the same cluster again,
with every pod where it was. Each thing that will happen stands on one heap under the moment when it is seen; work
grows with what happens, not with how many nodes and pods there are.
"""

import heapq
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.agent.core.behaviour import Behaviour, next_failure_s, run_plan, start_delay_s
from muster.agent.core.cluster import (
    OBSERVATIONS_MAX,
    CreatePods,
    DeletePods,
    Effect,
    NodeLeftSeen,
    NodeLostSeen,
    NodeObservation,
    NodeReturnedSeen,
    NodeSeen,
    Observation,
    PodsExitedSeen,
    PodsStartedSeen,
)
from muster.core import NS_PER_S, Instant, after, seconds_between
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.facts.node import NodeJoined

GRID_NS = 50 * NS_PER_S // 1000
"""Events are seen on this grid, as a watch delivers them in bursts: every batch costs the log a guarded append."""
STALE_MAX = 1000  # heap entries of what will no longer happen, beyond as many as there are live ones

_Key = tuple[Literal["node", "pods"], str, int]


@dataclass(slots=True)
class _Node:
    """A node that is part of the cluster. due: when it fails, or returns if it is lost; None: never."""

    description: NodeJoined
    is_known: bool = False
    is_lost: bool = False
    due: Instant | None = None


@dataclass(slots=True)
class _Pods:
    """One attempt's pods. due: when their next step is seen: the start, the end of the run, or the end on request."""

    effect: CreatePods
    due: Instant
    started_at: Instant | None = None
    deletion: DeletePods | None = None


class SimulatedCluster:
    """Implements `Cluster`. fleet: descriptions by node name."""

    def __init__(self, fleet: Mapping[str, NodeJoined], behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._nodes = {name: _Node(description) for name, description in fleet.items()}
        self._pods: dict[tuple[str, int], _Pods] = {}
        self._heap: list[tuple[Instant, _Key]] = []  # entries whose moment is no longer their subject's are stale
        self._seen_nodes: dict[str, NodeObservation] = {
            name: NodeSeen(name, description) for name, description in fleet.items()
        }
        self._seen_pods: dict[tuple[str, int], Instant] = {}  # by key, in the order seen: since when it is so

    def carry_out(self, effect: Effect) -> None:
        """See `Cluster`."""
        key = (effect.job_id, effect.attempt)
        pods = self._pods.get(key)
        if isinstance(effect, CreatePods):
            if pods is None:
                delay_s = start_delay_s(self._behaviour, job_id=effect.job_id, attempt=effect.attempt)
                self._pods[key] = _Pods(effect, _on_grid(after(effect.at, delay_s)))
                self._push_pods(key, self._pods[key].due)
            return
        if pods is None or pods.deletion or self._has_ended(pods, effect.at):
            return
        pods.deletion = effect
        self._look_again(key, pods, _on_grid(effect.at))

    def observe(self, now: Instant) -> Sequence[Observation]:
        """See `Cluster`."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if not self._is_stale(due, key):
                self._see(due, key)
        pods = (self._pods_observation(self._pods[key]) for key in self._seen_pods)
        return tuple(itertools.islice(itertools.chain(self._seen_nodes.values(), pods), OBSERVATIONS_MAX))

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        """See `Cluster`."""
        match observation:
            case PodsStartedSeen():
                self._acknowledge_start(observation, at)
            case PodsExitedSeen():
                key = (observation.job_id, observation.attempt)
                self._pods.pop(key, None)
                self._seen_pods.pop(key, None)
            case NodeSeen():
                self._acknowledge_description(observation, at)
            case NodeLeftSeen():
                self._forget_node(observation.node)
            case NodeLostSeen() | NodeReturnedSeen():
                self._acknowledge_health(observation, at)

    def next_change(self) -> Instant | None:
        """See `Cluster`."""
        if self._seen_nodes:
            return Instant(0)
        if self._seen_pods:
            return next(iter(self._seen_pods.values()))
        while self._heap and self._is_stale(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _acknowledge_start(self, observation: PodsStartedSeen, at: Instant) -> None:
        key = (observation.job_id, observation.attempt)
        pods = self._pods.get(key)
        if pods is None or pods.started_at is not None:
            return
        pods.started_at = at
        if pods.deletion is None:
            self._look_again(key, pods, _on_grid(self._run_end(pods, at)))

    def _acknowledge_description(self, observation: NodeSeen, at: Instant) -> None:
        node = self._nodes.get(observation.node)
        if node is None:
            self._seen_nodes[observation.node] = NodeLeftSeen(observation.node, "not part of the cluster any more")
            return
        node.is_known = True
        if observation.description == node.description:
            self._seen_nodes.pop(observation.node, None)
        else:
            self._seen_nodes[observation.node] = NodeSeen(observation.node, node.description)
        self._plan_change(observation.node, node, at)

    def _acknowledge_health(self, observation: NodeLostSeen | NodeReturnedSeen, at: Instant) -> None:
        node = self._nodes.get(observation.node)
        if node is None:
            return
        if isinstance(self._seen_nodes.get(observation.node), type(observation)):
            del self._seen_nodes[observation.node]
        node.is_lost = isinstance(observation, NodeLostSeen)
        self._plan_change(observation.node, node, at)

    def _forget_node(self, name: str) -> None:
        self._seen_nodes.pop(name, None)
        node = self._nodes.get(name)
        if node is not None:  # the log let go a node that is here: it joins again
            node.is_known = node.is_lost = False
            node.due = None
            self._seen_nodes[name] = NodeSeen(name, node.description)

    def _plan_change(self, name: str, node: _Node, since: Instant) -> None:
        """The node is up, or lost, since then: when does that end?"""
        if node.is_lost:
            seconds: float | None = self._behaviour.node_repair_s
        else:
            seconds = next_failure_s(self._behaviour, node=name, up_since=since)
        if seconds is None:
            node.due = None
            return
        node.due = _on_grid(after(since, seconds))
        heapq.heappush(self._heap, (node.due, ("node", name, 0)))

    def _look_again(self, key: tuple[str, int], pods: _Pods, due: Instant) -> None:
        """The pods' next step is now at `due`; what was seen and not acknowledged is overtaken by it."""
        self._seen_pods.pop(key, None)
        pods.due = due
        self._push_pods(key, due)

    def _push_pods(self, key: tuple[str, int], due: Instant) -> None:
        heapq.heappush(self._heap, (due, ("pods", *key)))
        if len(self._heap) > 2 * (len(self._pods) + len(self._nodes)) + STALE_MAX:
            self._heap = [entry for entry in self._heap if not self._is_stale(*entry)]
            heapq.heapify(self._heap)

    def _is_stale(self, due: Instant, key: _Key) -> bool:
        kind, name, attempt = key
        if kind == "node":
            return self._nodes[name].due != due
        pods = self._pods.get((name, attempt))
        return pods is None or pods.due != due

    def _see(self, due: Instant, key: _Key) -> None:
        kind, name, attempt = key
        if kind == "pods":
            self._seen_pods[name, attempt] = due
            return
        node = self._nodes[name]
        node.due = None
        if not node.is_known or name in self._seen_nodes:
            return
        self._seen_nodes[name] = NodeReturnedSeen(name) if node.is_lost else NodeLostSeen(name, "stopped answering")

    def _pods_observation(self, pods: _Pods) -> Observation:
        effect, deletion = pods.effect, pods.deletion
        if deletion is not None:
            started = deletion.at if pods.started_at is None else pods.started_at
            return PodsExitedSeen(
                effect.job_id,
                effect.attempt,
                PodsOutcome.NODE_LOST if deletion.lost_node else PodsOutcome.STOPPED,
                ran_s=max(0.0, seconds_between(started, deletion.at)),
                node=deletion.lost_node,
            )
        if pods.started_at is None:
            return PodsStartedSeen(effect.job_id, effect.attempt, self._device_uuids(effect))
        plan = run_plan(self._behaviour, effect.spec, job_id=effect.job_id, attempt=effect.attempt)
        failing = effect.slots[int(plan.failing * len(effect.slots))].node if plan.exit_code and effect.slots else ""
        return PodsExitedSeen(effect.job_id, effect.attempt, plan.outcome, plan.exit_code, plan.run_s, failing)

    def _device_uuids(self, effect: CreatePods) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self._device_uuid(slot.node, index) for index in slot.devices) for slot in effect.slots)

    def _device_uuid(self, node: str, index: int) -> str:
        known = self._nodes.get(node)
        uuids = known.description.gpu_uuids if known else ()
        return uuids[index] if 0 <= index < len(uuids) else ""

    def _run_end(self, pods: _Pods, started_at: Instant) -> Instant:
        effect = pods.effect
        plan = run_plan(self._behaviour, effect.spec, job_id=effect.job_id, attempt=effect.attempt)
        return after(started_at, plan.run_s)

    def _has_ended(self, pods: _Pods, at: Instant) -> bool:
        return pods.started_at is not None and self._run_end(pods, pods.started_at) <= at


def _on_grid(moment: Instant) -> Instant:
    return Instant(-(-moment // GRID_NS) * GRID_NS)
