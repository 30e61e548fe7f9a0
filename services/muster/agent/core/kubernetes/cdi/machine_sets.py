"""Add and remove nodes of groups by the replicas of their MachineSets.

A scaling decision changes replicas exactly once: the same patch names the decision in an annotation, and carries the
version that was read. So a repeated patch, or another leader, finds the decision and does nothing. A machine created
for a decision is marked with it, so its node is recognized; one to remove is marked for deletion before replicas are
lowered. Replicas that Muster did not write are reported (`drift`), and adopted once the machines exist.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from muster.agent.core.cluster import (
    AddNode,
    CancelScale,
    NodeEffect,
    NodeLeftSeen,
    NodeObservation,
    NodeSeen,
    ProvisionFailedSeen,
    RemoveNode,
    WordSeen,
)
from muster.agent.core.kubernetes.calls import CONFLICT, Kind, Merge, Outcome, Refused
from muster.agent.core.kubernetes.machines import Machines
from muster.agent.core.kubernetes.resources import instant
from muster.agent.core.kubernetes.views import NOT_SEEN
from muster.agent.core.kubernetes.worklist import AT_ONCE, Purpose, Worklist
from muster.core import NS_PER_S, Instant, after
from muster.kube.objects import JsonObject, at, integer, name_of, objects, strings, text, uid_of, version_of

ADDS = "muster.dev/adds"
"""Annotation of a MachineSet: scaling decisions for which its replicas were raised and whose nodes are missing."""
REMOVES = "muster.dev/removes"
"""Annotation of a MachineSet: scaling decisions for which its replicas were lowered."""
REPLICAS = "muster.dev/replicas"
"""Annotation: replicas as Muster last wrote or adopted them; another number was written by others."""
SCALE = "muster.dev/scale"
"""Annotation of a Machine: the scaling decision that created it."""
SPEC = "muster.dev/spec"
"""Annotation of a MachineSet: "spec-fixed" if it shows one spec, whatever the devices of its nodes."""
OURS = (ADDS, REMOVES, REPLICAS, SPEC)
WORDS_MAX = 512
"""Length of the reason why a machine failed."""
DIGITS_MAX = 9
"""Length of a number in an annotation, which anyone may write."""

_FAILED = frozenset({"Failed"})


@dataclass(frozen=True, slots=True)
class MachineSetView:
    """A MachineSet; no write is safe without `version`."""

    name: str
    uid: str
    version: str
    replicas: int
    ready: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)

    def choices(self, annotation: str) -> tuple[str, ...]:
        """Return the scaling decisions in an annotation."""
        return tuple(name for name in self.annotations.get(annotation, "").split(",") if name)

    @property
    def own_replicas(self) -> int | None:
        """Return the replicas that Muster last wrote; None if it never did."""
        written = self.annotations.get(REPLICAS, "")
        return int(written) if len(written) <= DIGITS_MAX and written.isdecimal() else None


@dataclass(frozen=True, slots=True)
class MachineView:
    """One machine of a MachineSet (`of`), and its node, "" before it has one.

    `scale`: its scaling decision. `created`: by the API server's clock. `is_marked`: removed before others. `failure`:
    why it will not become a node.
    """

    name: str
    uid: str
    of: str
    node: str = ""
    scale: str = ""
    created: Instant = NOT_SEEN
    is_marked: bool = False
    is_going: bool = False
    failure: str = ""


def project_machine_set(raw: JsonObject, *, kept: frozenset[str] = frozenset(OURS)) -> MachineSetView:
    """kept: annotations that are compared and written."""
    annotations = {key: value for key, value in strings(raw, "metadata", "annotations").items() if key in kept}
    return MachineSetView(
        name=name_of(raw),
        uid=uid_of(raw),
        version=version_of(raw),
        replicas=integer(raw, "spec", "replicas", default=1),
        ready=integer(raw, "status", "readyReplicas"),
        annotations=annotations,
    )


def project_machine(raw: JsonObject, *, delete_mark: str = "") -> MachineView | None:
    """Return the machine; None if no MachineSet made it. delete_mark: annotation that selects one for deletion."""
    owners = objects(raw, "metadata", "ownerReferences")
    owner = next((text(one, "name") for one in owners if text(one, "kind") == "MachineSet"), "")
    if not owner:
        return None
    failed = text(raw, "status", "failureMessage") or text(raw, "status", "errorMessage")
    if not failed and text(raw, "status", "phase") in _FAILED:
        failed = "its phase is Failed"
    return MachineView(
        name=name_of(raw),
        uid=uid_of(raw),
        of=owner,
        node=text(raw, "status", "nodeRef", "name"),
        scale=text(raw, "metadata", "annotations", SCALE),
        created=instant(text(raw, "metadata", "creationTimestamp")),
        is_marked=delete_mark in strings(raw, "metadata", "annotations"),
        is_going=at(raw, "metadata", "deletionTimestamp") is not None,
        failure=failed[:WORDS_MAX],
    )


CLOCKS_S = 5.0
"""Maximum clock difference for machines with a node to count as created after a decision."""

REFUSED_AGAIN_S = 5.0
"""Before a patch is repeated that the API server refused for a reason other than its version."""
NO_MACHINE = "no Machine of a MachineSet became this node"


@dataclass(frozen=True, slots=True)
class MachinePolicy:
    """MachineSets by node group, their namespace and API.

    `delete_mark`: annotation for machines to remove first. `fixed`: annotations of MachineSets by node group: their
    fixed spec.
    """

    namespace: str = "default"
    sets: Mapping[str, str] = field(default_factory=dict)
    delete_mark: str = "cluster.x-k8s.io/delete-machine"
    fixed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    machine_sets: Kind = Kind.MACHINE_SETS
    machines: Kind = Kind.MACHINES

    @property
    def annotations(self) -> frozenset[str]:
        """Return the annotations of MachineSets that are kept."""
        return frozenset(OURS) | {key for one in self.fixed.values() for key in one}


@dataclass(frozen=True, slots=True)
class ChangeMachines(Purpose):
    """Annotate a Machine, or a MachineSet and its replicas."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Drift:
    """The replicas of a MachineSet were changed by others; `was` is Muster's number."""

    group: str
    set_name: str
    was: int
    now: int


class MachineSets(Machines):
    """Nodes by MachineSets; `tell` is called for nodes whose scaling decision became known."""

    def __init__(self, policy: MachinePolicy, worklist: Worklist) -> None:
        self.tell: Callable[[str], None] = lambda _: None
        self.policy = policy
        self._worklist = worklist
        worklist.serve(self, ChangeMachines)
        self._groups = {name: group for group, name in policy.sets.items()}
        self._adds: dict[str, AddNode] = {}  # of the log: not there yet, not given up
        self._removes: dict[str, RemoveNode] = {}
        self._failed: dict[str, ProvisionFailedSeen] = {}
        self._sets: dict[str, MachineSetView] = {}
        self._machines: dict[str, MachineView] = {}
        self._of_node: dict[str, str] = {}
        self._is_synced = False
        self._is_dirty = True
        self._rests_until: Instant | None = None
        self.is_permitted = True
        """Whether objects may be read and written; set at the begin of a term. Otherwise all would count as absent."""

    # --- what the log says -----------------------------------------------------------------------------------

    @override
    def carry_out(self, effect: NodeEffect) -> None:
        self._is_dirty = True
        match effect:
            case AddNode() if effect.group not in self.policy.sets:
                reason = f"no MachineSet is named for node group {effect.group}: name it in kubernetes.scaling.names"
                self._fail(effect.scale, effect.group, effect.node, reason)
            case AddNode():
                self._adds.setdefault(effect.scale, effect)
            case RemoveNode():
                self._removes.setdefault(effect.scale, effect)
            case CancelScale():
                self._cancel(effect.scale)
            case _:
                pass  # devices are seen at the node itself; what a checkpoint recalls is seen too

    @override
    def acknowledge(self, seen: NodeObservation | WordSeen, at: Instant) -> None:
        self._is_dirty = True
        match seen:
            case ProvisionFailedSeen():
                self._failed.pop(seen.scale, None)
                self._cancel(seen.scale)
            case NodeSeen() if seen.description.scale in self._adds:
                del self._adds[seen.description.scale]
            case NodeLeftSeen():
                for scale in [scale for scale, one in self._removes.items() if one.node == seen.node]:
                    del self._removes[scale]
            case _:
                pass

    def _cancel(self, scale: str) -> None:
        """Cancel a decision: a missing addition is undone, a begun removal is not."""
        self._adds.pop(scale, None)
        self._removes.pop(scale, None)
        self._failed.pop(scale, None)

    def _fail(self, scale: str, group: str, node: str, reason: str) -> None:
        self._failed[scale] = ProvisionFailedSeen(scale, group, node, reason)

    # --- what the API server shows ---------------------------------------------------------------------------

    def set_seen(self, view: MachineSetView) -> None:
        """Handle a new state of a MachineSet; those without a group are ignored."""
        if view.name in self._groups:
            self._sets[view.name] = view
            self._is_dirty = True

    def set_gone(self, name: str) -> None:
        """Handle a deleted MachineSet."""
        self._sets.pop(name, None)
        self._is_dirty = True

    def machine_seen(self, view: MachineView) -> None:
        """Handle a new state of a Machine."""
        before = self._machines.get(view.name)
        if view.of not in self._groups:
            return
        self._machines[view.name] = view
        if before is not None and before.node and before.node != view.node:
            self._of_node.pop(before.node, None)
        if view.node:
            self._of_node[view.node] = view.name
            if view.scale and (before is None or (before.node, before.scale) != (view.node, view.scale)):
                self.tell(view.node)
        self._is_dirty = True

    def machine_gone(self, name: str) -> None:
        """Handle a deleted Machine."""
        view = self._machines.pop(name, None)
        if view is not None and self._of_node.get(view.node) == name:
            del self._of_node[view.node]
        self._is_dirty = True

    def synced(self) -> None:
        """Record that all MachineSets and Machines were seen."""
        self._is_synced = self._is_dirty = True

    @override
    def reset(self) -> None:
        """Forget what was seen; what the log says stays."""
        self._sets.clear()
        self._machines.clear()
        self._of_node.clear()
        self._is_synced, self._rests_until = False, None
        self._is_dirty = True

    # --- what follows ----------------------------------------------------------------------------------------

    @override
    def scale_of(self, node: str) -> str:
        machine = self._machines.get(self._of_node.get(node, ""))
        return machine.scale if machine is not None else ""

    @override
    def observations(self) -> Iterator[NodeObservation | WordSeen]:
        yield from self._failed.values()

    @override
    def next_change(self) -> Instant | None:
        if self._failed:
            return AT_ONCE
        return self._rests_until

    def drifts(self) -> Iterator[Drift]:
        """Return MachineSets whose replicas were changed by others, and whose machines are incomplete."""
        for name, view in self._sets.items():
            was = view.own_replicas
            if was is not None and was != view.replicas:
                yield Drift(self._groups[name], name, was, view.replicas)

    @override
    def settle(self, now: Instant) -> None:
        """Make one patch at a time for each MachineSet and Machine."""
        if self._rests_until is not None and now >= self._rests_until:
            self._rests_until, self._is_dirty = None, True
        is_ready = self._is_synced and self.is_permitted
        if not is_ready or not self._is_dirty or self._rests_until is not None:
            return
        self._is_dirty = False
        for group, name in self.policy.sets.items():
            view = self._sets.get(name)
            if view is None:
                for add in [add for add in self._adds.values() if add.group == group]:
                    reason = f"there is no MachineSet {name} in namespace {self.policy.namespace}"
                    self._fail(add.scale, group, add.node, reason)
            else:
                self._mark_machines(group, view)
                self._write_set(group, view)
        self._look_for_removed()

    def _mark_machines(self, group: str, view: MachineSetView) -> None:
        """Mark each machine with its scaling decision, oldest first."""
        mine = [machine for machine in self._machines.values() if machine.of == view.name]
        known = {machine.scale for machine in mine}
        wanted = [scale for scale in view.choices(ADDS) if scale not in known and scale in self._adds]
        free = sorted(
            (one for one in mine if not one.scale and not one.is_going), key=lambda one: (one.created, one.name)
        )
        for scale in wanted:
            since = before(self._adds[scale].at, CLOCKS_S)
            machine = next((one for one in free if not one.node or one.created >= since), None)
            if machine is not None:
                free.remove(machine)
                self._annotate(machine, {SCALE: scale})
        for machine in mine:
            if machine.failure and machine.scale in self._adds:
                add = self._adds[machine.scale]
                self._fail(add.scale, group, add.node, f"machine {machine.name}: {machine.failure}")

    def _annotate(self, machine: MachineView, annotations: Mapping[str, str]) -> None:
        policy = self.policy
        body: JsonObject = {"metadata": {"uid": machine.uid, "annotations": dict(annotations)}}
        call = Merge(policy.machines, policy.namespace, machine.name, body)
        self._worklist.ask(ChangeMachines(call.kind, call.name), call)

    def _write_set(self, group: str, view: MachineSetView) -> None:
        """Make one patch with replicas, their decisions, and the shown spec."""
        adds, removes = list(view.choices(ADDS)), list(view.choices(REMOVES))
        replicas = view.replicas
        for scale in [scale for scale in adds if scale not in self._adds]:
            replicas -= self._undo(scale, view, adds)
        for add in self._adds.values():
            if add.group == group and add.scale not in adds:
                adds.append(add.scale)
                replicas += 1
        for remove in self._removes.values():
            if remove.scale not in removes and self._may_lower(remove, view):
                removes.append(remove.scale)
                replicas -= 1
        removes = [scale for scale in removes if scale in self._removes]
        wanted = {ADDS: ",".join(adds), REMOVES: ",".join(removes), **self.policy.fixed.get(group, {})}
        is_theirs = view.own_replicas is not None and view.own_replicas != view.replicas
        if not is_theirs or replicas != view.replicas or view.ready == view.replicas:
            wanted[REPLICAS] = str(max(0, replicas))
        changed = {key: value for key, value in wanted.items() if view.annotations.get(key, "") != value}
        if changed:
            self._patch(view, changed, max(0, replicas))

    def _undo(self, scale: str, view: MachineSetView, adds: list[str]) -> int:
        """Return by how many replicas to lower for an addition that is no longer awaited: its node came, or will not.

        Replicas are lowered only if no machine exists for them, or one without a node is marked: otherwise the
        MachineSet might remove a machine with jobs.
        """
        mine = [one for one in self._machines.values() if one.of == view.name and not one.is_going]
        machine = next((one for one in self._machines.values() if one.scale == scale), None)
        if machine is None and len(mine) >= view.replicas:
            machine = next((one for one in mine if not one.scale and not one.node), None)
            if machine is None:  # all that there are became nodes: so did this one
                adds.remove(scale)
                return 0
        if machine is not None and machine.node:
            adds.remove(scale)
            return 0
        if machine is not None and not machine.is_going and not self._mark_for_deletion(machine):
            return 0
        adds.remove(scale)
        return 1

    def _may_lower(self, remove: RemoveNode, view: MachineSetView) -> bool:
        """Return whether its machine belongs to this set and goes first: it is marked or being deleted."""
        machine = self._machines.get(self._of_node.get(remove.node, ""))
        if machine is None or machine.of != view.name:
            return False
        return machine.is_going or self._mark_for_deletion(machine)

    def _mark_for_deletion(self, machine: MachineView) -> bool:
        """Return whether the machine is marked; if not, mark it."""
        if machine.is_marked:
            return True
        self._annotate(machine, {self.policy.delete_mark: "yes"})
        return False

    def _patch(self, view: MachineSetView, annotations: Mapping[str, str], replicas: int) -> None:
        policy = self.policy
        body: JsonObject = {"metadata": {"resourceVersion": view.version, "annotations": dict(annotations)}}
        if replicas != view.replicas:
            body["spec"] = {"replicas": replicas}
        call = Merge(policy.machine_sets, policy.namespace, view.name, body)
        self._worklist.ask(ChangeMachines(call.kind, call.name), call)

    def answered(self, purpose: ChangeMachines, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - the port
        """Continue after a patch. Watches show its effect; after a version conflict it is computed again."""
        self._is_dirty = True
        if isinstance(outcome, Refused) and outcome.code != CONFLICT:
            self._rests_until = after(now, REFUSED_AGAIN_S)

    def _look_for_removed(self) -> None:
        """Report that a node without a machine cannot be removed by a MachineSet."""
        begun = {scale for view in self._sets.values() for scale in view.choices(REMOVES)}
        for scale, remove in self._removes.items():
            if remove.node not in self._of_node and scale not in begun and scale not in self._failed:
                group = next((group for group, name in self.policy.sets.items() if name in self._sets), "")
                self._fail(scale, group, remove.node, NO_MACHINE)


def before(at: Instant, seconds: float) -> Instant:
    """Return the time that many seconds before another, at least 0."""
    return Instant(max(0, at - round(seconds * NS_PER_S)))
