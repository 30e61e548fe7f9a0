"""Scale-down in one decision: case 3 (a node is unneeded), case 4 (its removal is blocked), then long-idle GPUs.

All of it shares one budget, so that limits and reserves hold for everything chosen together.

Case 3: a composable node gives its GPUs back first, and is removed when it has none. GPUs are back within a minute and
save their idle power at once. Removing the node saves its own power, but a job that needs one soon waits for a
provision. How long it stays unneeded is unknown, so the estimate is as long again as it already was (the rule by which
renting or buying costs at most twice the optimum): the node is removed once that is longer than a removal and a new
provision take, because until then removing it would have saved nothing. An ordinary node is removed after
`node_unneeded_s`.

Case 4: its idle GPUs go back to the pool. Held devices stay: for a scale-down no running job is ended, and no device is
taken from it (invariants 5 and 6).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.core import Instant, seconds_between
from muster.core.settings import GroupSettings
from muster.scaler.core.autoscaler import Giving, NodeSurplus, NodeUnneeded, RemovalBlocked, Surplus
from muster.scaler.core.changes import Cooldowns
from muster.scaler.core.choices import REMOVE_GPU, REMOVE_NODE, Choice
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.jobs import Demand
from muster.scaler.core.limits import CHOICES_PER_DECISION_MAX
from muster.scaler.core.spare import Budget, Claims, Spare, SpareDevices
from muster.schemas.facts.scale import Alternative, Refused, ScaleChosen

CASE_UNNEEDED, CASE_CANNOT_REMOVE = 3, 4


def gpus(count: int) -> str:
    """Return "1 GPU" or "3 GPUs"."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def idle_text(found: Sequence[Spare], now: Instant) -> str:
    """Return how long the device that became idle last has been idle, as text."""
    return f"{gpus(len(found))} idle for {min(one.idle_s(now) for one in found):.0f} s"


def since_text(since: Instant, now: Instant) -> str:
    """Return the elapsed time as text."""
    return f"{seconds_between(since, now):.0f} s"


def node_alternative(
    group: GroupSettings, *, watts: float, gpu_count: int, chosen: bool, fits: bool = True, detail: str = ""
) -> Alternative:
    """Return the alternative of removing the whole node."""
    return Alternative(
        what="remove the node" + (f", {gpus(gpu_count)} of it first" if gpu_count else ""),
        fits=fits,
        chosen=chosen,
        gpus=gpu_count,
        nodes=1,
        watts=watts,
        ready_s=group.deprovision_s,
        detail=detail,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScaleDown:
    """Chooses removals, one pass per decision."""

    cluster: Cluster
    spares: SpareDevices
    surplus: NodeSurplus
    demand: Demand
    refused: Mapping[str, Refused]
    cooldowns: Cooldowns

    def choices(self, now: Instant) -> list[Choice]:
        """Return the removals that are due now; the same until a fact is folded.

        Changes on their way must be entered in the fleet.
        """
        return [] if self.cluster.config.settings.mode == "off" else self.begin(now).run()

    def begin(self, now: Instant) -> "ScaleDownPass":
        """Return a pass that has taken nothing yet."""
        return ScaleDownPass(self, Claims(self.demand, self.refused, self.cluster.fleet), now)

    def next_wakeup(self, now: Instant) -> Instant | None:
        """Return when, by time alone, something could be removed that is not removed at `now`."""
        known = self.cluster.idle.next_due(now), self.spares.next_settled(now)
        moments = [moment for moment in known if moment is not None]
        for name, group in self.cluster.config.groups.items():
            if self.cluster.idle.idle_in[name] or self.cluster.node_groups.nodes_in(name):
                moments.append(self.cooldowns.nodes_until(group))
                if group.composable:
                    moments.append(self.cooldowns.gpus_until(group))
        return min((moment for moment in moments if moment > now), default=None)


class ScaleDownPass:
    """One decision: limits, reserves and the claims of waiting jobs hold for all that is chosen together."""

    def __init__(self, scale_down: ScaleDown, claims: Claims, now: Instant) -> None:
        self._cluster = scale_down.cluster
        self._config = scale_down.cluster.config
        self._spares = scale_down.spares
        self._surplus = scale_down.surplus
        self._cooldowns = scale_down.cooldowns
        self._claims = claims
        self._budget = Budget(scale_down.spares, now)
        self._now = now

    def run(self) -> list[Choice]:
        """Return the removals."""
        found, giving = list[Choice](), self._giving()
        for signal in self._surplus.of_nodes(self._now, giving):
            if len(found) >= CHOICES_PER_DECISION_MAX:
                return found
            choice = self._of_signal(signal)
            if choice is not None:
                found.append(choice)
        taken = {device for choice in found for device in getattr(choice.payload, "devices", ())}
        room = CHOICES_PER_DECISION_MAX - len(found)
        found.extend(self._idle_devices(giving, taken=taken, most=room))
        return found

    def _of_signal(self, signal: Surplus) -> Choice | None:
        return self.remove_node_or_gpus(signal) if isinstance(signal, NodeUnneeded) else self.return_gpus(signal)

    def _giving(self) -> Giving:
        """Return the groups that could give anything: nodes and devices of other groups are skipped."""
        nodes, gpus = set[str](), set[str]()
        for name, group in self._config.groups.items():
            if not self._cluster.node_groups.nodes_in(name):
                continue
            if (
                self._budget.nodes_left(group) > 0
                and self._now >= self._cooldowns.nodes_until(group)
                and not self._claims.on_nodes()
            ):
                nodes.add(name)
            if group.composable and self._now >= self._cooldowns.gpus_until(group):
                is_claimed = all(self._claims.on_model(model) for model in group.gpu_models)
                if self._budget.idle_left(group) > 0 and not is_claimed:
                    gpus.add(name)
        groups = self._config.groups

        def has_more(node: str) -> bool:
            return self._budget.gpus_left(groups[self._cluster.node_groups.group_of(node)], node) > 0

        return Giving(frozenset(nodes), frozenset(gpus), has_more)

    def remove_node_or_gpus(self, signal: NodeUnneeded) -> Choice | None:
        """Return the removal of the node or of its GPUs; None if a limit, a reserve or a waiting job prevents it."""
        group, record = self._cluster.group_of(signal.node), self._cluster.nodes.get(signal.node)
        if group is None or record is None or not record.usable or record.jobs:
            return None
        obstacle = self._node_obstacle(group, signal)
        found = self._returnable(group, signal.node, with_node=not obstacle)
        if found:
            return self._return_gpus(group, signal, found=found, obstacle=obstacle)
        if obstacle or not self._spares.is_bare(group, signal.node):
            return None
        return self._remove_node(group, signal)

    def _node_obstacle(self, group: GroupSettings, signal: NodeUnneeded) -> str:
        """Return why the whole node is not removed now; "" if it is."""
        if self._budget.nodes_left(group) <= 0:
            return f"the group keeps {group.nodes_min} nodes"
        unneeded_s = seconds_between(self._cluster.idle.nodes.since.get(signal.node, signal.since), self._now)
        if group.composable and unneeded_s < group.round_trip_s:
            return f"unneeded for {unneeded_s:.0f} s, removing and adding one takes {group.round_trip_s:.0f} s"
        if self._now < self._cooldowns.nodes_until(group):
            return "a node was added to the group, or something failed there, a moment ago"
        bound = self._spares.bound_to(signal.node, self._now)
        if bound:
            return bound
        own = sum(self._spares.is_idle(uuid, self._now) for uuid in self._cluster.idle.on.get(signal.node, ()))
        if own > self._budget.idle_left(group):
            return f"the group keeps {group.warm_gpus} idle GPUs"
        waiting = self._claims.on_nodes()
        return f"{waiting} waits and could use it" if waiting else ""

    def _returnable(self, group: GroupSettings, node: str, *, with_node: bool = False) -> list[Spare]:
        """Return the devices of a composable node that may go back now. `with_node`: the node is removed too if all may
        go.

        A device may go if it was idle for the shorter of the two times, and attached, if not idle, for the longer one.
        So it makes at most one round trip in that time.
        """
        if not group.composable or self._now < self._cooldowns.gpus_until(group):
            return []
        if not with_node and self._budget.gpus_left(group, node) <= 0:
            return []
        rested = self._cluster.idle.rested.elapsed(self._now)
        found = [
            one
            for one in self._spares.on_node(node, self._now)
            if one.uuid in rested
            and self._spares.has_settled(one.uuid, self._now)
            and not self._claims.on_model(one.model)
        ]
        description = self._cluster.nodes.description(node)
        is_all = description is not None and len(found) == len(description.present)
        return list(self._budget.allowed(group, found, below_least=with_node and is_all))

    def _return_gpus(self, group: GroupSettings, signal: NodeUnneeded, *, found: list[Spare], obstacle: str) -> Choice:
        then = f"the node stays: {obstacle}" if obstacle else f"then the node goes, {group.idle_w:.0f} W more"
        reason = (
            f"node {signal.node} unneeded for {since_text(signal.since, self._now)}, {idle_text(found, self._now)}:"
            f" {self._saved_text(found)}; {then}"
        )
        return self._to_pool(found, case=CASE_UNNEEDED, reason=reason, obstacle=obstacle, fact=signal.fact)

    def _remove_node(self, group: GroupSettings, signal: NodeUnneeded) -> Choice:
        own = self._cluster.idle.on.get(signal.node, {})
        description = self._cluster.nodes.description(signal.node)
        model = self._config.model(description.gpu_model if description is not None else "")
        watts = group.idle_w + len(own) * model.idle_w
        unneeded = since_text(signal.since, self._now)
        reason = (
            f"node {signal.node} unneeded for {unneeded} saves {watts:.0f} W; gone in {group.deprovision_s:.0f} s,"
            f" another one would take {group.provision_s:.0f} s"
        )
        alternative = node_alternative(group, watts=watts, gpu_count=0, chosen=True, detail=f"unneeded for {unneeded}")
        self._budget.take_node(group, len(own))
        payload = ScaleChosen(
            case=CASE_UNNEEDED,
            group=group.name,
            node=signal.node,
            count=0,
            reason=reason,
            alternatives=(alternative,),
            watts=watts,
            ready_s=group.deprovision_s,
        )
        return Choice(REMOVE_NODE, payload, self._causes(signal.node, signal.fact))

    def return_gpus(self, signal: RemovalBlocked) -> Choice | None:
        """Return the removal of idle GPUs of the node; None if there are none."""
        group, record = self._cluster.group_of(signal.node), self._cluster.nodes.get(signal.node)
        if group is None or record is None or not record.usable:
            return None
        found = self._returnable(group, signal.node)
        if not found:
            return None
        reason = (
            f"node {signal.node}, hardly used for {since_text(signal.since, self._now)}, cannot go: {signal.reason}."
            f" {idle_text(found, self._now)}: {self._saved_text(found)}"
        )
        return self._to_pool(
            found, case=CASE_CANNOT_REMOVE, reason=reason, obstacle=signal.reason, fact=signal.fact, node_stays=True
        )

    def _idle_devices(self, giving: Giving, *, taken: set[str], most: int) -> Iterator[Choice]:
        """Yield the removal of devices that have been idle for `gpu_idle_s`, node by node; the nodes stay.

        `taken` has the devices that are already being removed.
        """
        elapsed: dict[str, list[Spare]] = {}
        node_of, group_of = self._cluster.idle.node_of, self._cluster.node_groups.group_of
        for uuid in self._cluster.idle.devices.elapsed(self._now) if giving.gpus else ():
            node = node_of[uuid]
            is_open = uuid not in taken and group_of(node) in giving.gpus and giving.has_more(node)
            one = self._spares.find(uuid, self._now) if is_open else None
            if one is not None:
                elapsed.setdefault(one.group, []).append(one)
        for name, devices in sorted(elapsed.items()):
            group = self._config.groups[name]
            wanted = [one for one in self._spares.emptiest_first(devices) if not self._claims.on_model(one.model)]
            by_node: dict[str, list[Spare]] = {}
            for one in self._budget.allowed(group, wanted):
                by_node.setdefault(one.node, []).append(one)
            for node, found in by_node.items():
                if most <= 0:
                    return
                most -= 1
                allowed_s = self._config.settings.gpu_idle_s
                reason = (
                    f"{idle_text(found, self._now)} on node {node}, of {allowed_s:.0f} s allowed:"
                    f" {self._saved_text(found)}; the node stays in {name}"
                )
                obstacle = self._why_not_the_node(group, node)
                yield self._to_pool(found, case=CASE_UNNEEDED, reason=reason, obstacle=obstacle, node_stays=True)

    def _to_pool(
        self, found: Sequence[Spare], *, case: int, reason: str, obstacle: str, fact: str = "", node_stays: bool = False
    ) -> Choice:
        """Choose to return these devices of one node to the pool. `obstacle` says why the node is not removed too."""
        first, count, watts = found[0], len(found), self._watts(found)
        group, detach_s = self._config.groups[first.group], self._config.model(first.model).detach_s
        fits = not (node_stays or obstacle)
        only_gpus = Alternative(
            what=f"return {gpus(count)} to the pool, keep the node",
            fits=True,
            chosen=True,
            gpus=count,
            watts=watts,
            ready_s=detach_s,
        )
        all_of_it = node_alternative(
            group, watts=watts + group.idle_w, gpu_count=count, chosen=False, fits=fits, detail=obstacle
        )
        self._budget.take_gpus(group, first.node, count)
        payload = ScaleChosen(
            case=case,
            group=first.group,
            node=first.node,
            device_model=first.model,
            count=count,
            reason=reason,
            devices=tuple(one.uuid for one in found),
            alternatives=(only_gpus, all_of_it),
            watts=watts,
            ready_s=detach_s,
        )
        return Choice(REMOVE_GPU, payload, self._causes(first.node, fact))

    def _watts(self, found: Iterable[Spare]) -> float:
        return sum(self._config.model(one.model).idle_w for one in found)

    def _saved_text(self, found: Sequence[Spare]) -> str:
        return f"{gpus(len(found))} back to the pool save {self._watts(found):.0f} W"

    def _why_not_the_node(self, group: GroupSettings, node: str) -> str:
        if self._cluster.nodes[node].jobs:
            return self._surplus.holders_text(node)
        empty_s = seconds_between(self._cluster.idle.nodes.since.get(node, self._now), self._now)
        has = len(self._cluster.node_groups.nodes_in(group.name))
        return f"empty for {empty_s:.0f} s; {group.name} has {has} nodes and keeps {group.nodes_min}"

    def _causes(self, node: str, fact: str) -> tuple[str, ...]:
        """Return the facts that led to the choice: the autoscaler's signal, and the last fact about the node."""
        record = self._cluster.nodes.get(node)
        last = record.last_fact if record is not None else ""
        return tuple(dict.fromkeys(one for one in (fact, last) if one))
