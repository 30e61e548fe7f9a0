"""Muster's own node autoscaler: which group would be grown for a gang, and which nodes nobody needs.

It wants what the field's autoscaler would want, in its words and with its delays, and leaves the choice between a node
and devices to the four cases. Up: the placement engine is asked whether the gang fits once virtual nodes of a group's
shown spec stand in the fleet. Down: a node that holds nothing is unneeded after its time; one of which less than half
is used would be spared if what runs there could be moved, but no running job is ended for a scale-down, so its removal
is blocked. In the mode of the Cluster Autoscaler the same questions are answered by what it said.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from muster.core import Instant
from muster.core.settings import GroupSettings
from muster.fabric.layout import node_name
from muster.placement import Fleet, GangRequest, NodeShape
from muster.placement.state import allows
from muster.scaler.core.groups import free_node_names, shown_spec, spec_text
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.limits import HOLDERS_NAMED_MAX, TRIAL_NODES_MAX
from muster.scaler.core.signals import Demanded, NodeRefused, NodeUnneeded, NodeWanted, RemovalBlocked, Surplus
from muster.scaler.core.state import State

RACK = "rack"
"""The level that nodes of a group declare while none of them is there to say otherwise."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """So many nodes of a group would make the gang fit. refusal: why they cannot be had, "" if they can."""

    group: GroupSettings
    nodes: int
    watts: float
    refusal: str

    @property
    def key(self) -> tuple[bool, float, float, str]:
        """Those to be had first, then least power, then soonest there."""
        return bool(self.refusal), self.watts, self.group.provision_s, self.group.name


def of_job(state: State, waiting: Waiting) -> Demanded | None:
    """Cases 1 and 2: what the autoscaler in charge wants for this job; None if it says nothing."""
    if state.config.settings.mode == "cluster-autoscaler":
        return state.signals.of_job(waiting.job_id)
    return wants(state, waiting) if state.config.settings.mode == "embedded" else None


@dataclass(frozen=True, slots=True)
class Giving:
    """Groups from which a node could go now, and those from which idle GPUs could, as far as limits and demand tell.

    has_more: whether a node has more GPUs than its least, of a group that has more idle ones than its reserve.
    """

    nodes: frozenset[str]
    gpus: frozenset[str]
    has_more: Callable[[str], bool]


def of_nodes(state: State, now: Instant, giving: Giving | None = None) -> Iterator[Surplus]:
    """Cases 3 and 4: which nodes the autoscaler in charge would remove. giving: only of these groups."""
    if state.config.settings.mode == "cluster-autoscaler":
        return state.signals.of_nodes()
    return unneeded(state, now, giving) if state.config.settings.mode == "embedded" else iter(())


def wants(state: State, waiting: Waiting) -> Demanded | None:
    """A node of the group that costs least power, or why there can be none. The state must be settled.

    None without any group.
    """
    offers = [offer for group in state.config.groups.values() if (offer := _offer(state, group, waiting))]
    if offers:
        best = min(offers, key=lambda offer: offer.key)
        if best.refusal:
            return NodeRefused((waiting.job_id,), best.group.name, best.refusal, waiting.fact)
        return NodeWanted((waiting.job_id,), best.group.name, best.nodes, waiting.fact)
    if not state.config.groups:
        return None
    shown = ", ".join(f"{group.name} ({spec_text(group)})" for group in list(state.config.groups.values())[:4])
    return NodeRefused((waiting.job_id,), "", f"it would not fit with more nodes of {shown}", waiting.fact)


def unneeded(state: State, now: Instant, giving: Giving | None = None) -> Iterator[Surplus]:
    """Nodes that hold nothing, and of those with idle GPUs the ones that hold too little to stay, after their time.

    Lost and withheld nodes are somebody else's business. giving: only nodes that have something to give.
    """
    records, group_of, idle = state.nodes, state.node_groups.group_of, state.idle
    every = frozenset(state.config.groups)
    nodes, gpus, has_more = (every, every, bool) if giving is None else (giving.nodes, giving.gpus, giving.has_more)
    for name in idle.nodes.elapsed(now) if nodes or gpus else ():
        group = group_of(name)
        gives = group in nodes or (group in gpus and idle.on.get(name) and has_more(name))
        if gives and records[name].usable:
            yield NodeUnneeded(name, idle.nodes.since[name])
    for name in idle.low.elapsed(now) if gpus else ():
        record = records[name]
        if group_of(name) in gpus and idle.on.get(name) and has_more(name) and record.jobs and record.usable:
            words = holders_text(state, name)
            yield RemovalBlocked(name, idle.low.since[name], words, tuple(sorted(record.jobs)))


def holders_text(state: State, node: str) -> str:
    """Who holds a node, and why that is not moved."""
    record = state.nodes.get(node)
    names = sorted(record.jobs) if record is not None else []
    told = []
    for job_id in names[:HOLDERS_NAMED_MAX]:
        job = state.jobs.records.get(job_id)
        holds_gpus = record is not None and any(hold.slot.gpu_milli for hold in record.jobs[job_id])
        words = [] if holds_gpus else ["no GPU"]
        if job is not None and not job.shape.preemptible:
            words.append("not preemptible")
        name = job.name if job is not None else job_id
        told.append(f"{name} ({', '.join(words)})" if words else name)
    more = f" and {len(names) - HOLDERS_NAMED_MAX} more" if len(names) > HOLDERS_NAMED_MAX else ""
    return f"held by {', '.join(told)}{more}; no running job is ended for a scale-down"


def _offer(state: State, group: GroupSettings, waiting: Waiting) -> _Offer | None:
    needed, shape = nodes_needed(state, group, waiting.ask)
    if not needed or shape is None:
        return None
    model = state.config.model(shape.gpu_model)
    gpus = min(waiting.gpus, needed * shape.gpu_count) if group.composable else needed * shape.gpu_count
    watts = needed * group.idle_w + gpus * model.idle_w
    return _Offer(group, needed, watts, _refusal(state, group, needed))


def _refusal(state: State, group: GroupSettings, needed: int) -> str:
    """Why the group does not get so many nodes; "" if it may."""
    has = len(state.capacity.members(group.name))
    if has + needed > group.nodes_max:
        return f"group {group.name} has {has} of at most {group.nodes_max} nodes, {needed} more would be needed"
    if state.now < state.rests_until(group.name):
        return f"a node of group {group.name} could not be added a moment ago"
    return ""


def nodes_needed(state: State, group: GroupSettings, gang: GangRequest) -> tuple[int, NodeShape | None]:
    """How many nodes of the shown spec make the gang fit, and that spec; (0, None) if no number of them does.

    Of a composable group's models, the first that will do. The fleet is unchanged afterwards.
    """
    most = min(TRIAL_NODES_MAX, sum(one.replicas_least for one in gang.groups))
    models = group.gpu_models if group.composable else ("",)
    for model in models:
        spec = shown_spec(group, state.capacity.actual_node(group.name), model=model)
        if not any(_fits_alone(spec, gang, index) for index in range(len(gang.groups))):
            continue
        count = _least(state, group, gang, spec, most)
        if count:
            return count, spec
    return 0, None


def _least(state: State, group: GroupSettings, gang: GangRequest, spec: NodeShape, most: int) -> int:
    """The least number of such nodes that will do, found by doubling and halving; 0 if none does."""
    fleet, low, high = state.fleet, 0, 1
    with _virtual(state, group, spec, most) as stand:
        while True:
            stand(min(high, most))
            if fleet.find(gang) is not None:
                break
            if high >= most:
                return 0
            low, high = high, high * 2
        high = min(high, most)
        while high - low > 1:
            middle = (low + high) // 2
            stand(middle)
            low, high = (low, middle) if fleet.find(gang) is not None else (middle, high)
    return high


class _Stand:
    """Lets so many virtual nodes stand in the fleet, those of them that do not already."""

    def __init__(self, fleet: Fleet, shapes: Iterator[NodeShape]) -> None:
        self._fleet, self._shapes = fleet, shapes
        self._known: list[NodeShape] = []
        self._standing = 0

    def __call__(self, count: int) -> None:
        while self._standing > count:
            self._standing -= 1
            self._fleet.remove_node(self._known[self._standing].name)
        while self._standing < count:
            if self._standing == len(self._known):
                self._known.append(next(self._shapes))
            self._fleet.add_node(self._known[self._standing])
            self._standing += 1


@contextmanager
def _virtual(state: State, group: GroupSettings, spec: NodeShape, most: int) -> Iterator[_Stand]:
    stand = _Stand(state.fleet, _new_nodes(state, group, spec, most))
    try:
        yield stand
    finally:
        stand(0)


def _new_nodes(state: State, group: GroupSettings, spec: NodeShape, most: int) -> Iterator[NodeShape]:
    """The next `most` nodes of a group, each where it would stand; beyond its limit too, to say what is lacking."""
    known = state.fleet.ledger.nodes
    endless = group.model_copy(update={"nodes_max": len(known) + group.nodes_max + TRIAL_NODES_MAX})
    for name in free_node_names(endless, known, most):
        yield replace(spec, name=name, domains=expected_domains(state, group, name))


def expected_domains(state: State, group: GroupSettings, name: str) -> tuple[tuple[str, str], ...]:
    """Where a node of this name would stand: where its neighbours do, which share its rack by number.

    A rack that no node of the group stands in yet is a new one, of the narrowest level that the others declare.
    """
    rack = _rack(group, name)
    first = rack * group.rack_size + 1
    for index in range(first, first + group.rack_size):
        description = state.nodes.description(node_name(group.name, index))
        if description is not None and description.group == group.name:
            return description.domains
    other = state.nodes.description(next(iter(state.node_groups.nodes_in(group.name)), ""))
    level = RACK if other is None else other.domains[-1][0] if other.domains else ""
    return ((level, f"{group.name}-r{rack}"),) if level else ()


def _rack(group: GroupSettings, name: str) -> int:
    number = name.rpartition("-")[2]
    return (int(number) - 1) // group.rack_size if number.isdecimal() and int(number) else 0


def _fits_alone(spec: NodeShape, gang: GangRequest, index: int) -> bool:
    """Whether one replica of this group could stand on such a node: else more of them cannot help it."""
    shape = gang.groups[index].shape
    if spec.cpu_milli < shape.cpu_milli or spec.memory_mib < shape.memory_mib or spec.gpu_count < shape.gpus:
        return False
    needs_gpu = shape.holds_devices
    return allows(shape, spec.gpu_model) and (spec.gpu_count > 0 or not needs_gpu)
