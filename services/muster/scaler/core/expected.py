"""What each node will be, by what was folded about it and by the choices that concern it."""

from collections.abc import Sequence
from dataclasses import replace

from muster.placement import NodeShape
from muster.scaler.core.attachments import COMING
from muster.scaler.core.autoscaler import expected_domains
from muster.scaler.core.choices import OpenChoice
from muster.scaler.core.coming import Expected, Kept
from muster.scaler.core.groups import shown_spec
from muster.scaler.core.jobs import WAITING
from muster.scaler.core.state import State
from muster.schemas.devices import GPU
from muster.schemas.facts.node import NodeJoined


def settle(state: State) -> None:
    """Enter in the fleet what is on its way, where that is not done. Costs what changed since."""
    coming = state.coming
    for name in list(coming.stale):
        coming.enter(name, expected(state, name))


def expected(state: State, name: str) -> Expected:
    """What a node will be."""
    choices = state.choices.on_node(name)
    record = state.nodes.get(name)
    if record is None or record.description is None:
        adding = state.choices.adds.get(name)
        if adding is None:
            return Expected()
        return Expected(shape=new_node(state, adding), kept=_kept(state, choices, name))
    node = record.description
    devices, model = (0, "") if node.device_domains else _devices_coming(state, choices, name, node)
    usable, unusable = _devices_changing(state, node)
    return Expected(
        is_usable=not (record.usable or record.lost or record.wishes or record.cordon),
        devices=devices,
        model=model,
        usable=usable,
        unusable=unusable,
        kept=_kept(state, choices, name),
    )


def _kept(state: State, choices: Sequence[OpenChoice], name: str) -> tuple[Kept, ...]:
    """Places on a node for jobs that still wait for what was chosen for them."""
    found = list[Kept]()
    for choice in choices:
        record = state.jobs.records.get(choice.chosen.jobs[0]) if choice.serves and choice.chosen.jobs else None
        if record is None or record.phase not in WAITING or record.is_out:
            continue
        groups = record.shape.gang.groups
        found += [
            Kept(record.shape.gang, place.group, place.replicas)
            for place in choice.chosen.places
            if place.node == name and place.group < len(groups)
        ]
    return tuple(found)


def new_node(state: State, choice: OpenChoice) -> NodeShape:
    """A node that is being added: of a composable group with the GPUs that are kept for it."""
    chosen = choice.chosen
    group = state.config.groups.get(chosen.group)
    if group is None:  # not configured any more
        return NodeShape(chosen.node, 0, 0, 0, "")
    domains = expected_domains(state, group, chosen.node)
    if not group.composable:
        return replace(shown_spec(group, state.actual_node(group.name), name=chosen.node), domains=domains)
    parts = [part for part in chosen.parts if part.node == chosen.node]
    model, count = parts[0].device_model if parts else "", sum(part.count for part in parts)
    return NodeShape(chosen.node, group.cpu_milli, group.memory_mib, count, model, domains)


def _devices_coming(state: State, choices: Sequence[OpenChoice], name: str, node: NodeJoined) -> tuple[int, str]:
    """GPUs that the node does not show yet: those that are being attached, and those for which that has not begun."""
    present = frozenset(node.present.values())
    count, model = 0, ""
    for attachment in state.attachments.on.get(name, {}).values():
        if attachment.requested.type == GPU and attachment.phase in COMING and attachment.device_uuid not in present:
            count, model = count + 1, attachment.requested.model
    for choice in choices:
        for part in choice.chosen.parts:
            if part.node == name and (left := state.part_left(choice, name, part.count)):
                count, model = count + left, part.device_model
    return (count, model) if not present or model == node.gpu_model else (0, "")


def _devices_changing(state: State, node: NodeJoined) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Devices that the scheduler will release by itself, and those that were chosen to go: by index."""
    usable, unusable = list[int](), list[int]()
    for index, uuid in node.present.items():
        record = state.grants.devices.get(uuid)
        if uuid in state.choices.of_device:
            if record is None:
                unusable.append(index)
        elif record is not None and not record.released and not record.wishes:
            usable.append(index)
    return tuple(usable), tuple(unusable)
