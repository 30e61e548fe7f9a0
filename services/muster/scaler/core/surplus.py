"""Scale-down in one decision: nodes that an autoscaler calls unneeded or blocked, then GPUs that were idle for long.

All of it within one budget, so that limits and reserves hold for what is chosen together; and the devices of nodes
that would come free first, so that idleness gathers on whole nodes.
"""

from collections.abc import Iterator

from muster.core import Instant, seconds_between
from muster.core.settings import GroupSettings
from muster.scaler.core import autoscaler, hysteresis, limits
from muster.scaler.core.case_cannot_remove import return_gpus
from muster.scaler.core.case_unneeded import CASE, causes, remove_node_or_gpus
from muster.scaler.core.choice import Choice
from muster.scaler.core.choices import REMOVE_GPU
from muster.scaler.core.consolidate import emptiest_first
from muster.scaler.core.signals import NodeUnneeded
from muster.scaler.core.spare import Budget, Spare, spare
from muster.scaler.core.state import State
from muster.scaler.core.surplus_words import (
    gpu_watts,
    gpus,
    gpus_alternative,
    holders_words,
    idle_words,
    node_alternative,
    removal,
)


def surplus(state: State, now: Instant) -> list[Choice]:
    """What is to be taken away now. The state must be settled; the answer is the same until something is folded."""
    if state.config.settings.mode == "off":
        return []
    budget, claims, found = Budget(state), hysteresis.Claims(state), list[Choice]()
    giving = _giving(state, now, budget=budget, claims=claims)
    for signal in autoscaler.of_nodes(state, now, giving):
        if len(found) >= limits.CHOICES_PER_DECISION_MAX:
            return found
        if isinstance(signal, NodeUnneeded):
            choice = remove_node_or_gpus(state, signal, now, budget=budget, claims=claims)
        else:
            choice = return_gpus(state, signal, now, budget=budget, claims=claims)
        if choice is not None:
            found.append(choice)
    taken = {device for choice in found for device in getattr(choice.payload, "devices", ())}
    room = limits.CHOICES_PER_DECISION_MAX - len(found)
    found.extend(idle_devices(state, now, giving, budget=budget, claims=claims, taken=taken, most=room))
    return found


def _giving(state: State, now: Instant, *, budget: Budget, claims: hysteresis.Claims) -> autoscaler.Giving:
    """Groups that could give anything at all: of the others no node and no device is looked at."""
    nodes, gpus = set[str](), set[str]()
    for name, group in state.config.groups.items():
        if not state.node_groups.nodes_in(name):
            continue
        if budget.nodes_left(group) > 0 and now >= hysteresis.nodes_quiet_until(state, group) and not claims.on_nodes():
            nodes.add(name)
        if group.composable and now >= hysteresis.gpus_quiet_until(state, group, group.fabric):
            is_claimed = all(claims.on_model(model) for model in group.gpu_models)
            if budget.idle_left(group) > 0 and not is_claimed:
                gpus.add(name)
    groups = state.config.groups

    def has_more(node: str) -> bool:
        return budget.gpus_left(groups[state.node_groups.group_of(node)], node) > 0

    return autoscaler.Giving(frozenset(nodes), frozenset(gpus), has_more)


def idle_devices(
    state: State,
    now: Instant,
    giving: autoscaler.Giving,
    *,
    budget: Budget,
    claims: hysteresis.Claims,
    taken: set[str],
    most: int = limits.CHOICES_PER_DECISION_MAX,
) -> Iterator[Choice]:
    """Devices that have been idle for `gpu_idle_s` go back, node by node; the nodes stay.

    taken: those that go already.
    """
    ripe: dict[str, list[Spare]] = {}
    node_of, group_of = state.idle.node_of, state.node_groups.group_of
    for uuid in state.idle.devices.ripe(now) if giving.gpus else ():
        node = node_of[uuid]
        is_open = uuid not in taken and group_of(node) in giving.gpus and giving.has_more(node)
        one = spare(state, uuid) if is_open else None
        if one is not None:
            ripe.setdefault(one.group, []).append(one)
    for name, devices in sorted(ripe.items()):
        group = state.config.groups[name]
        wanted = [one for one in emptiest_first(state, devices) if not claims.on_model(one.model)]
        by_node: dict[str, list[Spare]] = {}
        for one in budget.allowed(group, wanted):
            by_node.setdefault(one.node, []).append(one)
        for node, found in by_node.items():
            if most <= 0:
                return
            most -= 1
            budget.take_gpus(group, node, len(found))
            yield _returned(state, group, found, now)


def _returned(state: State, group: GroupSettings, found: list[Spare], now: Instant) -> Choice:
    node = found[0].node
    reason = (
        f"{idle_words(found, now)} on node {node}, of {state.config.settings.gpu_idle_s:.0f} s allowed:"
        f" {gpus(len(found))} back to the pool save {gpu_watts(state, found):.0f} W; the node stays in {group.name}"
    )
    why_not = _why_not_the_node(state, group, node, now)
    saved = gpu_watts(state, found) + group.idle_w
    alternatives = (
        gpus_alternative(state, found, chosen=True),
        node_alternative(group, watts=saved, gpu_count=len(found), chosen=False, fits=False, detail=why_not),
    )
    payload = removal(state, found, case=CASE, reason=reason, alternatives=alternatives)
    return Choice(REMOVE_GPU, payload, causes(state, node, ""))


def _why_not_the_node(state: State, group: GroupSettings, node: str, now: Instant) -> str:
    if state.nodes[node].jobs:
        return holders_words(state, node)
    empty_s = seconds_between(state.idle.nodes.since.get(node, now), now)
    has = len(state.node_groups.nodes_in(group.name))
    return f"empty for {empty_s:.0f} s; {group.name} has {has} nodes and keeps {group.nodes_min}"


def next_wakeup(state: State, now: Instant) -> Instant | None:
    """When, by time alone, something could be taken away that is not taken at `now`."""
    known = state.idle.next_due(now), hysteresis.next_settled(state, now)
    moments = [moment for moment in known if moment is not None]
    for name, group in state.config.groups.items():
        if state.idle.idle_in[name] or state.node_groups.nodes_in(name):
            moments.append(hysteresis.nodes_quiet_until(state, group))
            if group.composable:
                moments.append(hysteresis.gpus_quiet_until(state, group, group.fabric))
    return min((moment for moment in moments if moment > now), default=None)
