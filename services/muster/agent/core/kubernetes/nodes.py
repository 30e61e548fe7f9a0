"""Nodes of a Kubernetes cluster: observations that the log lacks.

A node joins when it is first ready, is lost when it was not ready for `lost_s`, rejoins when it is ready again, and
leaves when its object is gone. Use by foreign pods is subtracted from its description, which changes at most once a
second. A closed node (cordoned, or tainted against all pods) is drained, and schedulable once it is open again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.agent.core.cluster import (
    NodeClosedSeen,
    NodeLeftSeen,
    NodeLostSeen,
    NodeObservation,
    NodeOpenSeen,
    NodeReturnedSeen,
    NodeSeen,
)
from muster.agent.core.kubernetes.describing import Devices, NodePolicy, described
from muster.agent.core.kubernetes.machines import Machines
from muster.agent.core.kubernetes.views import NodeView, PodView, Requests
from muster.agent.core.kubernetes.worklist import AT_ONCE, Due
from muster.core import Instant, after
from muster.schemas.facts.node import NodeJoined

AWAY_S_MIN, AWAY_S_MAX = 30.0, 480.0
"""How long a node that refused a pod gets no new pods; doubled if it happens again soon."""
TELL_AGAIN_S = 1.0
"""Between two descriptions of one node: foreign pods come and go in bursts."""


@dataclass(frozen=True, slots=True)
class _Away:
    """A node that refused pods gets none for `seconds`, until `until`."""

    until: Instant
    seconds: float
    why: str


class Nodes:
    """The nodes; a node that is not ready for `lost_s` is lost."""

    def __init__(self, policy: NodePolicy, devices: Devices, machines: Machines, *, lost_s: float) -> None:
        self.views: dict[str, NodeView] = {}
        self.is_synced = False
        """Whether all nodes, pods and devices were seen: before, absence means nothing."""
        self._policy = policy
        self._devices = devices
        self._machines = machines
        self._lost_s = lost_s
        self._told: dict[str, NodeJoined] = {}  # in the log
        self.told_changes = 0
        self._told_at: dict[str, Instant] = {}
        self._lost: set[str] = set()
        self._closed: dict[str, str] = {}
        self._unready_since: dict[str, Instant] = {}
        self._away: dict[str, _Away] = {}
        self._pods: dict[tuple[str, str], tuple[str, Requests]] = {}  # foreign pods, with their nodes
        self._used: dict[str, dict[tuple[str, str], Requests]] = {}
        self._due: Due[str] = Due()
        self._news: dict[str, NodeObservation] = {}

    def seen(self, view: NodeView, now: Instant) -> None:
        """Handle a new state of a node."""
        self.views[view.name] = view
        if view.ready:
            self._unready_since.pop(view.name, None)
        else:
            self._unready_since.setdefault(view.name, now)
        self._due.mark(view.name)

    def gone(self, name: str) -> None:
        """Handle a deleted node."""
        self.views.pop(name, None)
        self._unready_since.pop(name, None)
        self._due.mark(name)

    def pod_seen(self, view: PodView) -> None:
        """Handle a new state of a foreign pod: it counts on its node until its end."""
        node = "" if view.end is not None else view.node
        known = self._pods.get(view.key)
        if known is not None and known == (node, view.requests):
            return
        self.pod_gone(view.key)
        if node:
            self._pods[view.key] = (node, view.requests)
            self._used.setdefault(node, {})[view.key] = view.requests
            self._due.mark(node)

    def pod_gone(self, key: tuple[str, str]) -> None:
        """Handle a deleted foreign pod."""
        known = self._pods.pop(key, None)
        if known is not None:
            del self._used[known[0]][key]
            self._due.mark(known[0])

    def devices_changed(self, node: str) -> None:
        """Evaluate a node whose devices changed."""
        self._due.mark(node)

    def synced(self) -> None:
        """Record that everything was seen."""
        self.is_synced = True
        self._due.mark(*self.views, *self._told)

    def reset(self) -> None:
        """Forget what was seen, because another process leads; what is in the log stays."""
        self.is_synced = False
        for held in (self.views, self._unready_since, self._pods, self._used, self._news):
            held.clear()
        self._due.clear()

    def acknowledge(self, seen: NodeObservation, at: Instant) -> None:
        """Record that the log has an observation."""
        match seen:
            case NodeSeen():
                self._told[seen.node], self._told_at[seen.node] = seen.description, at
                self.told_changes += 1
            case NodeLostSeen():
                self._lost.add(seen.node)
            case NodeReturnedSeen():
                self._lost.discard(seen.node)
            case NodeClosedSeen():
                self._closed[seen.node] = seen.reason
            case NodeOpenSeen():
                self._closed.pop(seen.node, None)
            case NodeLeftSeen():
                self._told.pop(seen.node, None)
                self.told_changes += 1
                self._told_at.pop(seen.node, None)
                self._lost.discard(seen.node)
                self._closed.pop(seen.node, None)
            case _:
                return
        self._due.mark(seen.node)

    def settle(self, now: Instant) -> None:
        """Evaluate every node that changed or is due."""
        for name in self._due.take(now) if self.is_synced else ():
            seen = self._observation(name, now)
            if seen is None:
                self._news.pop(name, None)
            else:
                self._news[name] = seen

    def observations(self) -> Iterator[NodeObservation]:
        """Yield unacknowledged observations, as of the last `settle`."""
        yield from self._news.values()

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self._news)

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        return self._due.next_at() if self.is_synced else None

    def is_lost(self, node: str) -> bool:
        """Return whether no kubelet will confirm an end there."""
        return node in self._lost or (self.is_synced and node not in self.views)

    def turned_away(self, node: str, now: Instant, *, why: str) -> None:
        """Close the node for a while: otherwise the scheduler, whose ledger has room there, would choose it again."""
        before = self._away.get(node)
        if before is not None and now < before.until:
            return
        is_again = before is not None and now < after(before.until, before.seconds)
        seconds = min(AWAY_S_MAX, 2 * before.seconds) if before is not None and is_again else AWAY_S_MIN
        self._away[node] = _Away(after(now, seconds), seconds, why)
        self._due.mark(node)

    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:
        """Return the uuids of devices by index; () if the kubelet picks."""
        told = self._told.get(node)
        if told is None or told.kubelet_picks:
            return ()
        return tuple(told.gpu_uuids[place] for place in devices if place < len(told.gpu_uuids))

    def gpus(self, node: str) -> int:
        """Return the number of whole GPUs of the node in the log."""
        told = self._told.get(node)
        return 0 if told is None or told.parts_only else len(told.present)

    @property
    def told(self) -> Mapping[str, NodeJoined]:
        """Return the descriptions in the log."""
        return self._told

    def _observation(self, name: str, now: Instant) -> NodeObservation | None:
        view, told = self.views.get(name), self._told.get(name)
        if view is None:
            return None if told is None else NodeLeftSeen(name, "it is no longer part of the cluster")
        if not view.ready:
            return self._unready(view, now) if told is not None else None
        if name in self._lost:
            return NodeReturnedSeen(name)
        if told is None and view.closed:
            return None  # it joins once it is open: otherwise jobs could be placed before it is drained
        closed = view.closed or self._kept_away(name, now)
        if closed and told is not None and name not in self._closed:
            return NodeClosedSeen(name, closed)
        seen = self._described(view, told, now)
        return NodeOpenSeen(name) if seen is None and not closed and name in self._closed else seen

    def _kept_away(self, name: str, now: Instant) -> str:
        """Return why the node gets no new pods for a while; "" if it does."""
        away = self._away.get(name)
        if away is None or now >= away.until:
            return ""
        self._due.mark_at(name, away.until)
        return away.why

    def _unready(self, view: NodeView, now: Instant) -> NodeLostSeen | None:
        if view.name in self._lost:
            return None
        lost_at = after(self._unready_since[view.name], self._lost_s)
        if now >= lost_at:
            return NodeLostSeen(view.name, view.not_ready)
        self._due.mark_at(view.name, lost_at)
        return None

    def _described(self, view: NodeView, told: NodeJoined | None, now: Instant) -> NodeSeen | None:
        description = described(
            view,
            used=_total(self._used.get(view.name, {}).values()),
            policy=self._policy,
            devices=self._devices,
            scale=(told.scale if told is not None else "") or self._machines.scale_of(view.name),
            attached=self._machines.devices_of,
        )
        if description == told:
            return None
        at = after(self._told_at.get(view.name, AT_ONCE), TELL_AGAIN_S)
        if now < at:
            self._due.mark_at(view.name, at)
            return None
        return NodeSeen(view.name, description)


def _total(requests: Iterable[Requests]) -> Requests:
    cpu_milli = memory_mib = 0
    extended: dict[str, int] = {}
    for one in requests:
        cpu_milli, memory_mib = cpu_milli + one.cpu_milli, memory_mib + one.memory_mib
        for resource, number in one.extended:
            extended[resource] = extended.get(resource, 0) + number
    return Requests(cpu_milli, memory_mib, tuple(sorted(extended.items())))
