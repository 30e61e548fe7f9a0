"""Case 3: a node is unneeded. Remove the node, or only its GPUs?

A composable node gives its GPUs back first, and goes itself when it has none. GPUs are back within a minute and save
their idle watts at once. The node saves its own watts, but whoever needs one soon waits for a provision. Nobody knows
for how long it stays unneeded, so it is taken to be for as long again as it already was (the rule by which renting or
buying costs at most twice the best, whatever comes): the node goes once that is longer than its removal and a new
provision take, for until then it would have saved nothing. Of an ordinary node nothing else can be had, so it goes
when its time is over.
"""

from muster.core import Instant, seconds_between
from muster.core.settings import GroupSettings
from muster.scaler.core import hysteresis
from muster.scaler.core.choice import Choice
from muster.scaler.core.choices import REMOVE_GPU, REMOVE_NODE
from muster.scaler.core.signals import NodeUnneeded
from muster.scaler.core.spare import Budget, Spare, bound_to, is_idle, spares_on
from muster.scaler.core.state import State
from muster.scaler.core.surplus_words import (
    gpu_watts,
    gpus,
    gpus_alternative,
    idle_words,
    node_alternative,
    removal,
    since_words,
)
from muster.schemas.facts.scale import ScaleChosen

CASE = 3


def remove_node_or_gpus(
    state: State,
    signal: NodeUnneeded,
    now: Instant,
    *,
    budget: Budget | None = None,
    claims: hysteresis.Claims | None = None,
) -> Choice | None:
    """The node, or GPUs of it, or nothing at all because of a limit, a reserve or somebody who waits."""
    budget, claims = budget or Budget(state), claims or hysteresis.Claims(state)
    group, record = state.group_of(signal.node), state.nodes.get(signal.node)
    if group is None or record is None or not record.usable or record.jobs:
        return None
    obstacle = node_obstacle(state, group, signal, now, budget=budget, claims=claims)
    found = returnable(state, group, signal.node, now, budget=budget, claims=claims, with_node=not obstacle)
    if found:
        return _return_gpus(state, group, signal, now, found=found, obstacle=obstacle, budget=budget)
    if obstacle or not _is_bare(state, group, signal.node):
        return None
    return _remove_node(state, group, signal, now, budget=budget)


def node_obstacle(
    state: State,
    group: GroupSettings,
    signal: NodeUnneeded,
    now: Instant,
    *,
    budget: Budget,
    claims: hysteresis.Claims,
) -> str:
    """Why the whole node does not go now; "" if it does."""
    if budget.nodes_left(group) <= 0:
        return f"the group keeps {group.nodes_min} nodes"
    unneeded_s = seconds_between(state.idle.nodes.since.get(signal.node, signal.since), now)
    if group.composable and unneeded_s < group.round_trip_s:
        return f"unneeded for {unneeded_s:.0f} s, removing and adding one takes {group.round_trip_s:.0f} s"
    if now < hysteresis.nodes_quiet_until(state, group):
        return "a node was added to the group, or something failed there, a moment ago"
    bound = bound_to(state, signal.node)
    if bound:
        return bound
    own = sum(is_idle(state, uuid) for uuid in state.idle.on.get(signal.node, ()))
    if own > budget.idle_left(group):
        return f"the group keeps {group.warm_gpus} idle GPUs"
    waiting = claims.on_nodes()
    return f"{waiting} waits and could use it" if waiting else ""


def returnable(
    state: State,
    group: GroupSettings,
    node: str,
    now: Instant,
    *,
    budget: Budget,
    claims: hysteresis.Claims,
    with_node: bool = False,
) -> list[Spare]:
    """Devices of a composable node that may go back now. with_node: it goes too, so if all may go none has to stay.

    Idle for the shorter of the two times, and attached, if not idle, for the longer one: so it makes one round trip
    in that time at most.
    """
    if not group.composable or now < hysteresis.gpus_quiet_until(state, group, group.fabric):
        return []
    if not with_node and budget.gpus_left(group, node) <= 0:
        return []
    rested = state.idle.rested.ripe(now)
    found = [
        one
        for one in spares_on(state, node)
        if one.uuid in rested and hysteresis.has_settled(state, one.uuid, now) and not claims.on_model(one.model)
    ]
    description = state.nodes.description(node)
    is_all = description is not None and len(found) == len(description.present)
    return list(budget.allowed(group, found, below_least=with_node and is_all))


def _return_gpus(
    state: State,
    group: GroupSettings,
    signal: NodeUnneeded,
    now: Instant,
    *,
    found: list[Spare],
    obstacle: str,
    budget: Budget,
) -> Choice:
    saved = gpu_watts(state, found)
    then = f"the node stays: {obstacle}" if obstacle else f"then the node goes, {group.idle_w:.0f} W more"
    reason = (
        f"node {signal.node} unneeded for {since_words(signal.since, now)}, {idle_words(found, now)}:"
        f" {gpus(len(found))} back to the pool save {saved:.0f} W; {then}"
    )
    alternatives = (
        gpus_alternative(state, found, chosen=True),
        node_alternative(
            group, watts=saved + group.idle_w, gpu_count=len(found), chosen=False, fits=not obstacle, detail=obstacle
        ),
    )
    budget.take_gpus(group, signal.node, len(found))
    payload = removal(state, found, case=CASE, reason=reason, alternatives=alternatives)
    return Choice(REMOVE_GPU, payload, causes(state, signal.node, signal.fact))


def _remove_node(state: State, group: GroupSettings, signal: NodeUnneeded, now: Instant, *, budget: Budget) -> Choice:
    own = state.idle.on.get(signal.node, {})
    description = state.nodes.description(signal.node)
    model = state.config.model(description.gpu_model if description is not None else "")
    watts = group.idle_w + len(own) * model.idle_w
    unneeded = since_words(signal.since, now)
    reason = (
        f"node {signal.node} unneeded for {unneeded} saves {watts:.0f} W; gone in {group.deprovision_s:.0f} s,"
        f" another one would take {group.provision_s:.0f} s"
    )
    alternative = node_alternative(group, watts=watts, gpu_count=0, chosen=True, detail=f"unneeded for {unneeded}")
    budget.take_node(group, len(own))
    payload = ScaleChosen(
        case=CASE,
        group=group.name,
        node=signal.node,
        count=0,
        reason=reason,
        alternatives=(alternative,),
        watts=watts,
        ready_s=group.deprovision_s,
    )
    return Choice(REMOVE_NODE, payload, causes(state, signal.node, signal.fact))


def _is_bare(state: State, group: GroupSettings, node: str) -> bool:
    """Whether nothing stands in the way of the node itself: no choice, no place kept, no device of a fabric."""
    known = state.fleet.ledger.nodes.get(node)
    if known is None or known.holds or state.choices.on_node(node) or state.attachments.on.get(node):
        return False
    description = state.nodes.description(node)
    return description is not None and not (group.composable and description.present)


def causes(state: State, node: str, fact: str) -> tuple[str, ...]:
    """The facts that led to it: what the autoscaler said, and what last happened to the node."""
    record = state.nodes.get(node)
    last = record.last_fact if record is not None else ""
    return tuple(dict.fromkeys(one for one in (fact, last) if one))
