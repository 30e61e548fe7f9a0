"""Scale-down in one decision: cases 3 (a node is unneeded) and 4 (its removal is blocked), then GPUs idle for long.

All of it within one budget, so that limits and reserves hold for what is chosen together.

Case 3: a composable node gives its GPUs back first, and goes itself when it has none. GPUs are back within a minute and
save their idle watts at once. The node saves its own watts, but whoever needs one soon waits for a provision. Nobody
knows for how long it stays unneeded, so it is taken to be for as long again as it already was (the rule by which
renting or buying costs at most twice the best, whatever comes): the node goes once that is longer than its removal and
a new provision take, for until then it would have saved nothing. An ordinary node goes when its time is over.

Case 4: its idle GPUs go back to the pool. What is held stays: no running job is ended, and no device is taken from it,
for a scale-down (invariants 5 and 6).
"""

from collections.abc import Iterable, Iterator, Sequence

from muster.core import Instant, seconds_between
from muster.core.settings import GroupSettings, ModelSettings
from muster.scaler.core import autoscaler, limits
from muster.scaler.core.autoscaler import holders_text
from muster.scaler.core.choices import REMOVE_GPU, REMOVE_NODE, Choice
from muster.scaler.core.signals import NodeUnneeded, RemovalBlocked
from muster.scaler.core.spare import (
    Budget,
    Claims,
    Spare,
    bound_to,
    emptiest_first,
    gpus_backoff_until,
    has_settled,
    is_idle,
    next_settled,
    nodes_backoff_until,
    spare,
    spares_on,
)
from muster.scaler.core.state import State
from muster.schemas.facts.scale import Alternative, ScaleChosen


def gpus(count: int) -> str:
    """ "1 GPU", "3 GPUs"."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def model_of(state: State, found: Sequence[Spare]) -> ModelSettings:
    """The model of the devices of one node, which are all of one."""
    return state.config.model(found[0].model)


def gpu_watts(state: State, found: Iterable[Spare]) -> float:
    """What idle devices draw."""
    return sum(state.config.model(one.model).idle_w for one in found)


def idle_text(found: Sequence[Spare], now: Instant) -> str:
    """How long the device that became idle last has been idle."""
    return f"{gpus(len(found))} idle for {min(one.idle_s(now) for one in found):.0f} s"


def since_text(since: Instant, now: Instant) -> str:
    """How long ago."""
    return f"{seconds_between(since, now):.0f} s"


def gpus_alternative(state: State, found: Sequence[Spare], *, chosen: bool, detail: str = "") -> Alternative:
    """Only these devices go."""
    model = model_of(state, found)
    return Alternative(
        what=f"return {gpus(len(found))} to the pool, keep the node",
        fits=True,
        chosen=chosen,
        gpus=len(found),
        watts=gpu_watts(state, found),
        ready_s=model.detach_s,
        detail=detail,
    )


def node_alternative(
    group: GroupSettings, *, watts: float, gpu_count: int, chosen: bool, fits: bool = True, detail: str = ""
) -> Alternative:
    """The whole node goes."""
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


def removal(
    state: State,
    found: Sequence[Spare],
    *,
    case: int,
    reason: str,
    alternatives: tuple[Alternative, ...] = (),
    jobs: tuple[str, ...] = (),
) -> ScaleChosen:
    """These devices of one node go back to the pool."""
    first, model = found[0], model_of(state, found)
    return ScaleChosen(
        case=case,
        group=first.group,
        node=first.node,
        device_model=first.model,
        count=len(found),
        jobs=jobs,
        reason=reason,
        devices=tuple(one.uuid for one in found),
        alternatives=alternatives,
        watts=gpu_watts(state, found),
        ready_s=model.detach_s,
    )


CASE_UNNEEDED = 3


def remove_node_or_gpus(
    state: State,
    signal: NodeUnneeded,
    now: Instant,
    *,
    budget: Budget | None = None,
    claims: Claims | None = None,
) -> Choice | None:
    """The node, or GPUs of it, or nothing at all because of a limit, a reserve or somebody who waits."""
    budget, claims = budget or Budget(state), claims or Claims(state)
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
    claims: Claims,
) -> str:
    """Why the whole node does not go now; "" if it does."""
    if budget.nodes_left(group) <= 0:
        return f"the group keeps {group.nodes_min} nodes"
    unneeded_s = seconds_between(state.idle.nodes.since.get(signal.node, signal.since), now)
    if group.composable and unneeded_s < group.round_trip_s:
        return f"unneeded for {unneeded_s:.0f} s, removing and adding one takes {group.round_trip_s:.0f} s"
    if now < nodes_backoff_until(state, group):
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
    claims: Claims,
    with_node: bool = False,
) -> list[Spare]:
    """Devices of a composable node that may go back now. with_node: it goes too, so if all may go none has to stay.

    Idle for the shorter of the two times, and attached, if not idle, for the longer one: so it makes one round trip
    in that time at most.
    """
    if not group.composable or now < gpus_backoff_until(state, group, group.fabric):
        return []
    if not with_node and budget.gpus_left(group, node) <= 0:
        return []
    rested = state.idle.rested.elapsed(now)
    found = [
        one
        for one in spares_on(state, node)
        if one.uuid in rested and has_settled(state, one.uuid, now) and not claims.on_model(one.model)
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
        f"node {signal.node} unneeded for {since_text(signal.since, now)}, {idle_text(found, now)}:"
        f" {gpus(len(found))} back to the pool save {saved:.0f} W; {then}"
    )
    alternatives = (
        gpus_alternative(state, found, chosen=True),
        node_alternative(
            group, watts=saved + group.idle_w, gpu_count=len(found), chosen=False, fits=not obstacle, detail=obstacle
        ),
    )
    budget.take_gpus(group, signal.node, len(found))
    payload = removal(state, found, case=CASE_UNNEEDED, reason=reason, alternatives=alternatives)
    return Choice(REMOVE_GPU, payload, causes(state, signal.node, signal.fact))


def _remove_node(state: State, group: GroupSettings, signal: NodeUnneeded, now: Instant, *, budget: Budget) -> Choice:
    own = state.idle.on.get(signal.node, {})
    description = state.nodes.description(signal.node)
    model = state.config.model(description.gpu_model if description is not None else "")
    watts = group.idle_w + len(own) * model.idle_w
    unneeded = since_text(signal.since, now)
    reason = (
        f"node {signal.node} unneeded for {unneeded} saves {watts:.0f} W; gone in {group.deprovision_s:.0f} s,"
        f" another one would take {group.provision_s:.0f} s"
    )
    alternative = node_alternative(group, watts=watts, gpu_count=0, chosen=True, detail=f"unneeded for {unneeded}")
    budget.take_node(group, len(own))
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


CASE_CANNOT_REMOVE = 4


def return_gpus(
    state: State,
    signal: RemovalBlocked,
    now: Instant,
    *,
    budget: Budget | None = None,
    claims: Claims | None = None,
) -> Choice | None:
    """Idle GPUs of the node that may go; None if there is none."""
    budget, claims = budget or Budget(state), claims or Claims(state)
    group, record = state.group_of(signal.node), state.nodes.get(signal.node)
    if group is None or record is None or not record.usable:
        return None
    found = returnable(state, group, signal.node, now, budget=budget, claims=claims)
    if not found:
        return None
    saved = gpu_watts(state, found)
    reason = (
        f"node {signal.node}, hardly used for {since_text(signal.since, now)}, cannot go: {signal.reason}."
        f" {idle_text(found, now)}: {gpus(len(found))} back to the pool save {saved:.0f} W"
    )
    alternatives = (
        gpus_alternative(state, found, chosen=True),
        node_alternative(
            group,
            watts=saved + group.idle_w,
            gpu_count=len(found),
            chosen=False,
            fits=False,
            detail=signal.reason,
        ),
    )
    budget.take_gpus(group, signal.node, len(found))
    payload = removal(state, found, case=CASE_CANNOT_REMOVE, reason=reason, alternatives=alternatives)
    return Choice(REMOVE_GPU, payload, causes(state, signal.node, signal.fact))


def surplus(state: State, now: Instant) -> list[Choice]:
    """What is to be taken away now. The state must be settled; the answer is the same until something is folded."""
    if state.config.settings.mode == "off":
        return []
    budget, claims, found = Budget(state), Claims(state), list[Choice]()
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


def _giving(state: State, now: Instant, *, budget: Budget, claims: Claims) -> autoscaler.Giving:
    """Groups that could give anything at all: of the others no node and no device is looked at."""
    nodes, gpus = set[str](), set[str]()
    for name, group in state.config.groups.items():
        if not state.node_groups.nodes_in(name):
            continue
        if budget.nodes_left(group) > 0 and now >= nodes_backoff_until(state, group) and not claims.on_nodes():
            nodes.add(name)
        if group.composable and now >= gpus_backoff_until(state, group, group.fabric):
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
    claims: Claims,
    taken: set[str],
    most: int = limits.CHOICES_PER_DECISION_MAX,
) -> Iterator[Choice]:
    """Devices that have been idle for `gpu_idle_s` go back, node by node; the nodes stay.

    taken: those that go already.
    """
    elapsed: dict[str, list[Spare]] = {}
    node_of, group_of = state.idle.node_of, state.node_groups.group_of
    for uuid in state.idle.devices.elapsed(now) if giving.gpus else ():
        node = node_of[uuid]
        is_open = uuid not in taken and group_of(node) in giving.gpus and giving.has_more(node)
        one = spare(state, uuid) if is_open else None
        if one is not None:
            elapsed.setdefault(one.group, []).append(one)
    for name, devices in sorted(elapsed.items()):
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
        f"{idle_text(found, now)} on node {node}, of {state.config.settings.gpu_idle_s:.0f} s allowed:"
        f" {gpus(len(found))} back to the pool save {gpu_watts(state, found):.0f} W; the node stays in {group.name}"
    )
    why_not = _why_not_the_node(state, group, node, now)
    saved = gpu_watts(state, found) + group.idle_w
    alternatives = (
        gpus_alternative(state, found, chosen=True),
        node_alternative(group, watts=saved, gpu_count=len(found), chosen=False, fits=False, detail=why_not),
    )
    payload = removal(state, found, case=CASE_UNNEEDED, reason=reason, alternatives=alternatives)
    return Choice(REMOVE_GPU, payload, causes(state, node, ""))


def _why_not_the_node(state: State, group: GroupSettings, node: str, now: Instant) -> str:
    if state.nodes[node].jobs:
        return holders_text(state, node)
    empty_s = seconds_between(state.idle.nodes.since.get(node, now), now)
    has = len(state.node_groups.nodes_in(group.name))
    return f"empty for {empty_s:.0f} s; {group.name} has {has} nodes and keeps {group.nodes_min}"


def next_wakeup(state: State, now: Instant) -> Instant | None:
    """When, by time alone, something could be taken away that is not taken at `now`."""
    known = state.idle.next_due(now), next_settled(state, now)
    moments = [moment for moment in known if moment is not None]
    for name, group in state.config.groups.items():
        if state.idle.idle_in[name] or state.node_groups.nodes_in(name):
            moments.append(nodes_backoff_until(state, group))
            if group.composable:
                moments.append(gpus_backoff_until(state, group, group.fabric))
    return min((moment for moment in moments if moment > now), default=None)
