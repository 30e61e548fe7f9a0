"""Hot plug: after an attach or detach, restart only the node's plugins; then its capacity is valid.

A device plugin looks for devices when it starts. So every plugin pod of the node that is older than the newest change
is deleted by uid (its DaemonSet creates another), which any leader may repeat; jobs keep running, because a plugin
holds no devices. Where drivers publish devices, a device is present when its uuid is; where the kubelet picks, when a
device plugin younger than the attachment is ready and the node's capacity counts the device. Until then an attached
device is not shown, so it is not `released`; a detached one is not counted, whatever the capacity says.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from muster.agent.core.cluster import NodeEffect, PlugDevice, UnplugDevice
from muster.agent.core.kubernetes.calls import Delete, Done, Kind, Outcome, Refused
from muster.agent.core.kubernetes.machines import NO_DEVICES, CountedDevices
from muster.agent.core.kubernetes.views import NOT_SEEN, PodView
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import NS_PER_S, Instant, after
from muster.schemas.devices import GPU

COUNTS, BESIDE = "counts", "beside"
"""Kinds of plugin pods: those that count GPUs for the capacity, and others (`PodView.plugin`)."""
CLOCKS_S = 1.0
"""Creation times of pods have whole seconds: one of the same second may be older."""
REFUSED_AGAIN_S = 30.0
"""Before a refused deletion is tried again."""


@dataclass(slots=True)
class _Node:
    """Devices and plugins of a node.

    `plugged`: attached GPUs in log order. `unplugged_at`: detached GPUs that may still be counted. `changed_at`: newest
    change; older plugins restart. `young`: pods created after it for certain. `asked`: deleted pods. `told`: devices in
    the log's description. `had_plugin`: a counting plugin was seen.
    """

    plugged: dict[str, Instant] = field(default_factory=dict)
    unplugged_at: dict[str, Instant] = field(default_factory=dict)
    model: str = ""
    changed_at: Instant = NOT_SEEN
    pods: dict[tuple[str, str], PodView] = field(default_factory=dict)
    young: set[str] = field(default_factory=set)
    told: frozenset[str] = frozenset()
    had_plugin: bool = False
    asked: set[str] = field(default_factory=set)

    def is_young(self, view: PodView, since: Instant) -> bool:
        """Return whether a pod looked for devices after this time."""
        return view.uid in self.young or _made(view) > since

    def counts(self, at: Instant) -> bool:
        """Return whether the node's capacity reflects this time: counting plugins started since and are ready.

        Without any known plugin it always does.
        """
        pods = [view for view in self.pods.values() if view.plugin == COUNTS and not view.ends_at]
        if not pods:
            return not self.had_plugin
        return all(view.is_running and self.is_young(view, at) for view in pods)


@dataclass(frozen=True, slots=True)
class RestartPlugin(Purpose):
    """Delete a plugin's pod: its DaemonSet makes another."""

    namespace: str
    name: str
    node: str = field(compare=False)
    uid: str = field(compare=False)


class HotPlug:
    """Restarts plugins, if allowed; `tell` is called for nodes whose description changes."""

    def __init__(self, worklist: Worklist, *, may_restart: bool = True) -> None:
        self.tell: Callable[[str], None] = lambda _: None
        self._worklist = worklist
        worklist.serve(self, RestartPlugin)
        self.may_restart = may_restart
        self._nodes: dict[str, _Node] = {}
        self._there: set[str] = set()
        self._dirty: dict[str, None] = {}
        self._again: dict[str, Instant] = {}
        self._is_synced = False

    # --- what the log says -----------------------------------------------------------------------------------

    def carry_out(self, effect: NodeEffect) -> None:
        """Record a device that was attached to the node's machine, or detached."""
        match effect:
            case PlugDevice(type=kind) if kind == GPU:
                node = self._node(effect.node)
                node.plugged.setdefault(effect.device_uuid, effect.at)
                node.model = effect.model or node.model
                node.unplugged_at.pop(effect.device_uuid, None)
            case UnplugDevice():
                known = self._nodes.get(effect.node)
                if known is None or known.plugged.pop(effect.device_uuid, None) is None:
                    return
                node = known
                node.unplugged_at[effect.device_uuid] = effect.at
                self._forget_lost(effect.node)
            case _:
                return
        node.changed_at = max(node.changed_at, effect.at)
        node.young.clear()
        self._touch(effect.node)

    def described(self, name: str, uuids: Iterable[str]) -> None:
        """Record the devices in the log's description of the node."""
        node = self._nodes.get(name)
        if node is not None:
            node.told = frozenset(uuids).intersection(node.plugged)

    def _node(self, name: str) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node()
        return node

    # --- what the API server shows ---------------------------------------------------------------------------

    def pod_seen(self, view: PodView) -> None:
        """Handle a new state of a plugin pod."""
        if not view.node:
            return
        node = self._node(view.node)
        known = node.pods.get(view.key)
        if self._is_synced and (known is None or known.uid != view.uid):
            node.young.add(view.uid)
        node.pods[view.key] = view
        node.had_plugin = node.had_plugin or view.plugin == COUNTS
        self._touch(view.node)

    def pod_gone(self, view: PodView) -> None:
        """Handle a deleted plugin pod."""
        node = self._nodes.get(view.node)
        if node is not None and node.pods.pop(view.key, None) is not None:
            node.young.discard(view.uid)
            node.asked.discard(view.uid)
            self._touch(view.node)
            self._forget_lost(view.node)

    def node_seen(self, name: str) -> None:
        """Record that the node is present."""
        self._there.add(name)

    def node_gone(self, name: str) -> None:
        """Record that the node is gone; its devices stay on the machine."""
        self._there.discard(name)
        self._dirty.pop(name, None)
        self._forget_lost(name)

    def synced(self) -> None:
        """Record that all nodes and pods were seen."""
        self._is_synced = True
        for name in tuple(self._nodes):
            self._touch(name)
            self._forget_lost(name)

    def reset(self) -> None:
        """Forget what was seen, because another process leads; what the log says stays."""
        self._is_synced = False
        self._there.clear()
        self._again.clear()
        for node in self._nodes.values():
            node.pods.clear()
            node.young.clear()
            node.asked.clear()

    # --- what follows ----------------------------------------------------------------------------------------

    def devices_of(self, name: str, capacity: int) -> CountedDevices:
        """Return the known devices of a node whose kubelet picks; `capacity` is its own."""
        node = self._nodes.get(name)
        if node is None or not (node.plugged or node.unplugged_at):
            return NO_DEVICES
        there = [uuid for uuid, at in node.plugged.items() if uuid in node.told or node.counts(at)]
        gone = sum(not node.counts(at) for at in node.unplugged_at.values())
        return CountedDevices(tuple(there[: max(0, capacity - gone)]), gone, node.model)

    def settle(self, now: Instant) -> None:
        """Restart plugins that are older than the newest change of their node."""
        for name in [name for name, at in self._again.items() if at <= now]:
            del self._again[name]
            self._dirty[name] = None
        if not self._is_synced:
            return
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            node = self._nodes.get(name)
            if node is not None and name not in self._again:
                if node.changed_at:
                    self._restart(name, node)
                self._forget_gone(node)

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        return min(self._again.values(), default=None)

    def _restart(self, name: str, node: _Node) -> None:
        for view in self._older(node) if self.may_restart else ():
            call = Delete(Kind.PODS, view.namespace, view.name, view.uid)
            self._worklist.ask(RestartPlugin(view.namespace, view.name, name, view.uid), call)

    def answered(self, purpose: RestartPlugin, outcome: Outcome, now: Instant) -> None:
        """Continue after a deletion."""
        name, node = purpose.node, self._nodes.get(purpose.node)
        if isinstance(outcome, Done) and node is not None:
            node.asked.add(purpose.uid)
        elif isinstance(outcome, Refused) and outcome.code not in _GONE:
            self._again[name] = after(now, REFUSED_AGAIN_S)
        self._dirty[name] = None

    def _older(self, node: _Node) -> Iterator[PodView]:
        """Return plugins that started before the newest change, and were not deleted yet."""
        for view in node.pods.values():
            if view.uid not in node.asked and not node.is_young(view, node.changed_at) and not view.ends_at:
                yield view

    def _forget_gone(self, node: _Node) -> None:
        """Drop detached devices that restarted plugins no longer count."""
        node.unplugged_at = {uuid: at for uuid, at in node.unplugged_at.items() if not node.counts(at)}

    def _forget_lost(self, name: str) -> None:
        """Forget a node that is gone, except for its attached devices."""
        node = self._nodes.get(name)
        if self._is_synced and name not in self._there and node is not None and not (node.plugged or node.pods):
            del self._nodes[name]

    def _touch(self, name: str) -> None:
        self._dirty[name] = None
        self.tell(name)


def _made(view: PodView) -> Instant:
    """Return a time at which the pod certainly did not exist yet."""
    return Instant(view.created_at - round(CLOCKS_S * NS_PER_S)) if view.created_at else Instant(0)


_GONE = (404, 409)
