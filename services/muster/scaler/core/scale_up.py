"""Cases 1 and 2: the autoscaler wants to add nodes, or cannot. Are GPUs enough?

Both are simulated in either case, so that a choice shows what the alternative would have cost. Nodes are added to the
fleet for a moment, and the placement engine is asked for the gang.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from muster.core.settings import GroupSettings
from muster.placement import Fleet, Hold, NodeShape
from muster.placement.state import allows
from muster.quota.formulas import Ceiling
from muster.scaler.core import limits
from muster.scaler.core.autoscaler import expected_domains, nodes_needed
from muster.scaler.core.choices import ADD, ATTACH, NOTHING, Choice
from muster.scaler.core.enlarge import gpus_enough, places_of
from muster.scaler.core.groups import free_node_names, shown_spec, spec_text
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.options import Lack, Option, added_s, added_watts
from muster.scaler.core.signals import NodeRefused, NodeWanted
from muster.scaler.core.state import State
from muster.schemas.facts.scale import Alternative, NothingChosen, ScaleChosen, ScalePart

TEXT_MAX = 1_024

QUOTA = "quota"
"""Why nothing is chosen: of a model that would do, the queue may hold no more."""


def attach(
    case: int, option: Option, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> Choice:
    """GPUs for the job. why: what the autoscaler wants. others: what else was simulated."""
    models = option.models
    payload = ScaleChosen(
        case=case,
        group=option.group,
        node=option.parts[0].node if len({part.node for part in option.parts}) == 1 else "",
        device_model=models[0] if len(models) == 1 else "",
        count=option.gpus,
        jobs=(waiting.job_id,),
        reason=text(f"{why}; {attach_text(option)} is enough: {figures(option)}"),
        parts=option.parts,
        devices=option.devices,
        moves=bool(option.devices),
        alternatives=(attach_alternative(option, chosen=True), *others)[: limits.ALTERNATIVES_NAMED_MAX],
        watts=option.watts,
        ready_s=option.ready_s,
        places=option.places,
    )
    return Choice(ATTACH, payload, causes, waiting.trace)


def add(
    case: int, option: Option, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> list[Choice]:
    """Nodes for the job, one choice each; the first carries what is kept on nodes that are there already."""
    new, chosen = frozenset(option.nodes), list[Choice]()
    first = option.nodes[0]
    for name in option.nodes:
        parts = tuple(part for part in option.parts if part.node == name)
        payload = ScaleChosen(
            case=case,
            group=option.group,
            node=name,
            device_model=parts[0].device_model if parts else "",
            count=sum(part.count for part in parts),
            jobs=(waiting.job_id,),
            reason=text(f"{why}; {add_text(option)}: {figures(option)}"),
            parts=parts,
            alternatives=(add_alternative(option, chosen=True), *others)[: limits.ALTERNATIVES_NAMED_MAX],
            watts=option.watts / len(option.nodes),
            ready_s=option.ready_s,
            places=tuple(
                place for place in option.places if place.node == name or (name == first and place.node not in new)
            ),
        )
        chosen.append(Choice(ADD, payload, causes, waiting.trace))
    return chosen


def nothing(
    case: int, lack: Lack, waiting: Waiting, *, why: str, others: tuple[Alternative, ...], causes: tuple[str, ...]
) -> Choice:
    """Neither helps, or neither may be had."""
    payload = NothingChosen(
        case=case,
        code=lack.code,
        jobs=(waiting.job_id,),
        reason=text(f"{why}; GPUs alone do not help: {lack.reason}"),
        alternatives=(*others, *lack.alternatives)[: limits.ALTERNATIVES_NAMED_MAX],
    )
    return Choice(NOTHING, payload, causes, waiting.trace)


def barred(choice: Choice, ceiling: Ceiling) -> Choice:
    """Nothing on the models that quota allows, when others are barred by it."""
    words = (
        f"queue {ceiling.queue} holds {ceiling.held} {ceiling.resource} of {ceiling.limit} ({ceiling.reason}),"
        f" and otherwise: {choice.payload.reason}"
    )
    return replace(choice, payload=choice.payload.model_copy(update={"code": QUOTA, "reason": text(words)}))


def attach_alternative(option: Option | Lack, *, chosen: bool = False) -> Alternative:
    """GPUs, as one of the things that were simulated."""
    if isinstance(option, Lack):
        return Alternative(what="attach GPUs to nodes that are there", fits=False, detail=text(option.reason))
    return Alternative(
        what=text(attach_text(option)),
        fits=True,
        chosen=chosen,
        gpus=option.gpus,
        watts=option.watts,
        ready_s=option.ready_s,
        detail=text(option.detail),
    )


def add_alternative(option: Option | Lack, *, chosen: bool = False) -> Alternative:
    """Nodes, as one of the things that were simulated."""
    if isinstance(option, Lack):
        return Alternative(what="add nodes", fits=False, detail=text(option.reason))
    return Alternative(
        what=text(add_text(option)),
        fits=True,
        chosen=chosen,
        gpus=option.gpus,
        nodes=len(option.nodes),
        watts=option.watts,
        ready_s=option.ready_s,
        detail=text(option.detail),
    )


def attach_text(option: Option) -> str:
    """Which GPUs, and where."""
    nodes = list(dict.fromkeys([part.node for part in option.parts]))
    where = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    moved = f" ({len(option.devices)} of them idle on other nodes)" if option.devices else ""
    return f"attaching {gpus(option.parts)} to {where}{moved}"


def add_text(option: Option) -> str:
    """Which nodes, and what they get."""
    names = option.nodes
    what = f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes {names[0]} to {names[-1]}"
    later = f", to get {gpus(option.parts)} afterwards" if option.parts else ""
    return f"adding {what} of group {option.group}{later}"


def gpus(parts: tuple[ScalePart, ...]) -> str:
    """How many of which model."""
    counts = dict[str, int]()
    for part in parts:
        counts[part.device_model] = counts.get(part.device_model, 0) + part.count
    return " and ".join(f"{n} {model}" for model, n in counts.items())


def figures(option: Option) -> str:
    """Power and time."""
    return f"{option.watts:+.0f} W, ready in about {option.ready_s:.0f} s"


def text(words: str) -> str:
    """As long as a fact may say."""
    return words if len(words) <= TEXT_MAX else f"{words[: TEXT_MAX - 1]}…"


def nodes_enough(state: State, waiting: Waiting, group: GroupSettings, count: int) -> Option | Lack:
    """Up to `count` nodes of the group for this gang, or why they do not help. The fleet is left as it was.

    A node of a composable group comes without GPUs: the fixed spec must fit, and the pool must have those that the gang
    would then hold on it, which are kept until they are attached.
    """
    names = free_node_names(group, state.capacity.members(group.name), count)
    if len(names) < count:
        words = (
            f"{len(state.capacity.members(group.name))} of at most {group.nodes_max} nodes are there or on their way"
        )
        return Lack("limits", f"group {group.name}: {words}, {count} more asked")
    lack = Lack("spec", f"the gang does not fit with {count} more nodes of group {group.name}")
    for model in _models(group, waiting):
        shapes = [_spec(state, group, name, model) for name in names]
        with standing(state.fleet, shapes):
            holds = state.fleet.find(waiting.ask)
        if holds is None:
            continue
        option = _option(state, group, names, model, holds)
        if isinstance(option, Option):
            return option
        lack = option
    return lack


@contextmanager
def standing(fleet: Fleet, shapes: list[NodeShape]) -> Iterator[None]:
    """For a while these nodes are there, empty and usable."""
    added = list[str]()
    try:
        for shape in shapes:
            fleet.add_node(shape)
            added.append(shape.name)
        yield
    finally:
        for name in reversed(added):
            fleet.remove_node(name)


def _models(group: GroupSettings, waiting: Waiting) -> list[str]:
    """Models that the nodes may get, best first; of an ordinary group, which has no choice, any one."""
    if not group.composable:
        return [""]
    shapes = [one.shape for one in waiting.ask.groups if one.shape.holds_devices]
    wished = [model for shape in shapes for model in shape.gpu_models if model in group.gpu_models]
    models = dict.fromkeys([*wished, *group.gpu_models])
    return [model for model in models if not shapes or any(allows(shape, model) for shape in shapes)]


def _spec(state: State, group: GroupSettings, name: str, model: str) -> NodeShape:
    shape = shown_spec(group, state.capacity.actual_node(group.name), name=name, model=model)
    return replace(shape, domains=expected_domains(state, group, name))


def _option(state: State, group: GroupSettings, names: list[str], model: str, holds: tuple[Hold, ...]) -> Option | Lack:
    used, devices = set[str](), dict[str, set[int]]()
    for hold in holds:
        if hold.slot.node in names:
            used.add(hold.slot.node)
            devices.setdefault(hold.slot.node, set()).update(hold.slot.devices)
    nodes = tuple(name for name in names if name in used)
    if not nodes:
        return Lack("spec", f"the gang would not use the new nodes of group {group.name}")
    parts = tuple(
        ScalePart(node=name, count=len(devices[name]), fabric=group.fabric, device_model=model)
        for name in nodes
        if group.composable and devices[name]
    )
    asked, left = sum(part.count for part in parts), state.capacity.pool_left(group.fabric, model) if parts else 0
    if asked > left:
        words = f"group {group.name} would fit the gang on {len(nodes)} more, which need {asked} {model}"
        return Lack("pool", f"{words}; the pool of {group.fabric} has {left} that are kept for nobody")
    return Option(
        parts=parts,
        nodes=nodes,
        group=group.name,
        places=places_of(holds),
        watts=added_watts(state.config, group, len(nodes), parts),
        ready_s=added_s(state.config, group, parts),
    )


CASE_ADD = 1


def attach_or_add(state: State, signal: NodeWanted, waiting: Waiting) -> list[Choice]:
    """GPUs if they are enough, else the nodes, one choice each; nothing if the nodes could not get their GPUs.

    The nodes are simulated in either case, so that the choice shows what they would have cost.
    """
    group = state.config.groups.get(signal.group)
    count = _nodes(state, signal, waiting) if group is not None else 0
    more = nodes_enough(state, waiting, group, count) if group else Lack("no-group", f"no group {signal.group}")
    enough = gpus_enough(state, waiting)
    spec = f", {spec_text(group, state.capacity.actual_node(group.name))}" if group is not None else ""
    nodes = "1 node" if count <= 1 else f"{count} nodes"
    why = f"{waiting.name} waits ({waiting.reason}); the autoscaler would add {nodes} of group {signal.group}{spec}"
    causes = tuple(dict.fromkeys(fact for fact in (waiting.fact, signal.fact) if fact))
    if isinstance(enough, Option):
        return [attach(CASE_ADD, enough, waiting, why=why, others=(add_alternative(more),), causes=causes)]
    others = (attach_alternative(enough),)
    if isinstance(more, Lack):
        more = _of_another_group(state, signal, waiting) or more
    if isinstance(more, Option):
        words = f"{why}; GPUs alone do not help ({enough.reason})"
        return add(CASE_ADD, more, waiting, why=words, others=others, causes=causes)
    why = f"{why}, which does not help: {more.reason}"
    return [nothing(CASE_ADD, enough, waiting, why=why, others=(*others, add_alternative(more)), causes=causes)]


def _nodes(state: State, signal: NodeWanted, waiting: Waiting) -> int:
    """How many; an autoscaler outside speaks of one job and a node, and not of how many its gang needs together."""
    if state.config.settings.mode == "embedded":
        return signal.nodes
    return max(signal.nodes, nodes_needed(state, state.config.groups[signal.group], waiting.ask)[0])


def _of_another_group(state: State, signal: NodeWanted, waiting: Waiting) -> Option | None:
    """Nodes of the cheapest group that could have them, if Muster's own autoscaler asked and its group cannot."""
    if state.config.settings.mode != "embedded":
        return None
    found = list[Option]()
    for group in state.config.groups.values():
        needed, _ = nodes_needed(state, group, waiting.ask) if group.name != signal.group else (0, None)
        if needed and state.rests_until(group.name) <= state.now:
            option = nodes_enough(state, waiting, group, needed)
            found += [option] if isinstance(option, Option) else []
    return min(found, key=lambda option: (option.watts, option.ready_s), default=None)


CASE_CANNOT_ADD = 2


def attach_or_nothing(state: State, signal: NodeRefused, waiting: Waiting) -> Choice:
    """GPUs if they are enough, else nothing, with the reasons for both."""
    enough = gpus_enough(state, waiting)
    causes = tuple(dict.fromkeys(fact for fact in (waiting.fact, signal.fact) if fact))
    why = f"{waiting.name} waits ({waiting.reason}); no node can be added: {signal.reason}"
    node = add_alternative(Lack("refused", signal.reason))
    if isinstance(enough, Option):
        return attach(CASE_CANNOT_ADD, enough, waiting, why=why, others=(node,), causes=causes)
    others = (attach_alternative(enough), node)
    return nothing(CASE_CANNOT_ADD, enough, waiting, why=why, others=others, causes=causes)
