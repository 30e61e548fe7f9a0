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

from muster.agent.core.behaviour import Behaviour, next_failure_s
from muster.agent.core.cluster import (
    OBSERVATIONS_MAX,
    CheckpointSeen,
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
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.agent.core.simulated_pods import SimulatedPods, Step, new_pods
from muster.core import NS_PER_S, Instant, after
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
    """One attempt's pods. step: what is seen of them next; due: when. One heap entry for all that they will do."""

    life: SimulatedPods
    step: Step
    due: Instant


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
        match effect:
            case CreatePods() if pods is None:
                life = new_pods(self._behaviour, effect)
                step, due = life.next_step(self._behaviour)
                self._pods[key] = _Pods(life, step, _on_grid(due))
                self._push_pods(key, self._pods[key].due)
            case DeletePods() if pods is not None and pods.life.delete(self._behaviour, effect):
                self._look_again(key, pods)
            case ResizePods() if pods is not None and pods.life.ask_resize(self._behaviour, effect):
                self._look_again(key, pods)

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
            case PodsStartedSeen() | CheckpointSeen() | PodsResizedSeen():
                self._acknowledge_step(observation, at)
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

    def _acknowledge_step(self, observation: PodsStartedSeen | CheckpointSeen | PodsResizedSeen, at: Instant) -> None:
        key = (observation.job_id, observation.attempt)
        pods = self._pods.get(key)
        if pods is None:
            return
        match observation:
            case PodsStartedSeen():
                has_moved = pods.life.start(self._behaviour, at)
            case PodsResizedSeen():
                has_moved = pods.life.resized()
            case CheckpointSeen():
                pods.life.checkpointed(self._behaviour, at)
                has_moved = True
        if has_moved:
            self._look_again(key, pods)

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

    def _look_again(self, key: tuple[str, int], pods: _Pods) -> None:
        """The pods' next step may be another now; what was seen and not acknowledged is overtaken by it."""
        pods.step, at = pods.life.next_step(self._behaviour)
        self._seen_pods.pop(key, None)
        pods.due = _on_grid(at)
        self._push_pods(key, pods.due)

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
        effect = pods.life.effect
        match pods.step:
            case Step.START:
                return PodsStartedSeen(effect.job_id, effect.attempt, self._device_uuids(effect))
            case Step.CHECKPOINT:
                return CheckpointSeen(effect.job_id, effect.attempt)
            case Step.RESIZE:
                wanted = pods.life.resize
                return PodsResizedSeen(effect.job_id, effect.attempt, len(wanted.slots) if wanted is not None else 0)
            case Step.EXIT:
                return pods.life.exited()

    def _device_uuids(self, effect: CreatePods) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self._device_uuid(slot.node, index) for index in slot.devices) for slot in effect.slots)

    def _device_uuid(self, node: str, index: int) -> str:
        known = self._nodes.get(node)
        uuids = known.description.gpu_uuids if known else ()
        return uuids[index] if 0 <= index < len(uuids) else ""


def _on_grid(moment: Instant) -> Instant:
    return Instant(-(-moment // GRID_NS) * GRID_NS)
