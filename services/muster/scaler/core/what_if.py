"""The fleet as it will be: what is on its way to each node, and what the decision being made has already chosen."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from muster.placement import Hold, NodeShape
from muster.placement.growth import grow, shrink
from muster.scaler.core.autoscaler import expected_domains
from muster.scaler.core.choices import ADD, OpenChoice
from muster.scaler.core.expected import Expected, Kept, hold_on
from muster.scaler.core.fabrics import COMING
from muster.scaler.core.groups import shown_spec
from muster.scaler.core.jobs import WAITING
from muster.scaler.core.state import State
from muster.schemas.devices import GPU
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import ScaleChosen


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
        return replace(shown_spec(group, state.capacity.actual_node(group.name), name=chosen.node), domains=domains)
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
            if part.node == name and (left := state.capacity.part_left(choice, name, part.count)):
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


class WhatIf:
    """Closing it leaves the state as it was."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._fleet = state.fleet
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()

    def hold(self, holds: Iterable[Hold]) -> None:
        """Somebody has these places."""
        for hold in holds:
            self._fleet.hold(hold)
            self._undo.append(partial(self._fleet.withdraw, hold))

    def choose(self, name: str, chosen: ScaleChosen) -> None:
        """This was chosen: it counts in the pool, in its group, and its places are kept."""
        state = self._state
        choice = OpenChoice(f"?{len(self._undo)}", name, chosen, state.now, "")
        if name == ADD:
            self._add_node(choice)
        else:
            for part in chosen.parts:
                self._grow(part.node, part.count, part.device_model)
            for device in chosen.devices:
                self._take_away(device)
        self._undo.append(state.capacity.forget)
        state.choices.add(choice)
        self._undo.append(partial(state.choices.remove, choice.id))
        state.capacity.count_chosen(choice)
        self._keep(choice)

    def _add_node(self, choice: OpenChoice) -> None:
        self._fleet.add_node(new_node(self._state, choice))
        self._undo.append(partial(self._fleet.remove_node, choice.chosen.node))

    def _grow(self, name: str, count: int, model: str) -> None:
        before = self._fleet.ledger.node(name).shape.gpu_model
        grow(self._fleet, name, count, model=model)
        self._undo.append(partial(shrink, self._fleet, name, count, model=before))

    def _take_away(self, device: str) -> None:
        attachment = self._state.attachments.of_device.get(device)
        description = self._state.nodes.description(attachment.node) if attachment is not None else None
        if attachment is None or description is None:
            return
        index = next((index for index, uuid in description.present.items() if uuid == device), None)
        if index is not None and index not in self._fleet.ledger.node(attachment.node).broken:
            self._fleet.set_device_usable(attachment.node, index, False)
            self._undo.append(partial(self._fleet.set_device_usable, attachment.node, index, True))

    def _keep(self, choice: OpenChoice) -> None:
        record = self._state.jobs.records.get(choice.chosen.jobs[0]) if choice.chosen.jobs else None
        if record is None:
            return
        groups = record.shape.gang.groups
        for place in choice.chosen.places:
            for _ in range(place.replicas):
                hold = hold_on(self._fleet, place.node, groups[place.group].shape)
                if hold is None:
                    break
                self.hold((hold,))
