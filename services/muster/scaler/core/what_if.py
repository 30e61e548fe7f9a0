"""The future fleet: changes on their way to each node, and the choices of the present decision."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from muster.core import Instant
from muster.placement import Hold
from muster.placement.growth import grow, shrink
from muster.scaler.core.choices import ADD, Choices, OpenChoice
from muster.scaler.core.cluster import Cluster, Expected, Kept, hold_on
from muster.scaler.core.fabrics import COMING, Attachments
from muster.scaler.core.jobs import WAITING, JobTable
from muster.scaler.core.new_nodes import NewNodes
from muster.schemas.devices import GPU
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import ScaleChosen


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FutureFleet:
    """Expected shape of every node, by its choices and attachments."""

    cluster: Cluster
    choices: Choices
    attachments: Attachments
    jobs: JobTable
    new_nodes: NewNodes

    def settle(self) -> None:
        """Enter missing changes on their way in the fleet; the cost is proportional to what changed."""
        coming = self.cluster.coming
        for name in list(coming.stale):
            coming.enter(name, self.expected(name))

    def expected(self, name: str) -> Expected:
        """Return what a node will be."""
        choices = self.choices.on_node(name)
        record = self.cluster.nodes.get(name)
        if record is None or record.description is None:
            adding = self.choices.adds.get(name)
            if adding is None:
                return Expected()
            return Expected(shape=self.new_nodes.shape_of(adding), kept=self._kept(choices, name))
        node = record.description
        devices, model = (0, "") if node.device_domains else self._devices_coming(choices, name, node)
        usable, unusable = self._devices_changing(node)
        return Expected(
            is_usable=not (record.usable or record.lost or record.wishes or record.cordon),
            devices=devices,
            model=model,
            usable=usable,
            unusable=unusable,
            kept=self._kept(choices, name),
        )

    def _kept(self, choices: Sequence[OpenChoice], name: str) -> tuple[Kept, ...]:
        found = list[Kept]()
        for choice in choices:
            record = self.jobs.records.get(choice.chosen.jobs[0]) if choice.serves and choice.chosen.jobs else None
            if record is None or record.phase not in WAITING or record.is_out:
                continue
            groups = record.shape.gang.groups
            found += [
                Kept(record.shape.gang, place.group, place.replicas)
                for place in choice.chosen.places
                if place.node == name and place.group < len(groups)
            ]
        return tuple(found)

    def _devices_coming(self, choices: Sequence[OpenChoice], name: str, node: NodeJoined) -> tuple[int, str]:
        """Return the GPUs that the node does not show yet: being attached, or chosen and not requested yet."""
        present = frozenset(node.present.values())
        count, model = 0, ""
        for attachment in self.attachments.on.get(name, {}).values():
            if (
                attachment.requested.type == GPU
                and attachment.phase in COMING
                and attachment.device_uuid not in present
            ):
                count, model = count + 1, attachment.requested.model
        for choice in choices:
            for part in choice.chosen.parts:
                if part.node == name and (left := self.attachments.part_left(choice.id, name, part.count)):
                    count, model = count + left, part.device_model
        return (count, model) if not present or model == node.gpu_model else (0, "")

    def _devices_changing(self, node: NodeJoined) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the indexes of devices that the scheduler will release by itself, and of devices chosen to go."""
        usable, unusable = list[int](), list[int]()
        for index, uuid in node.present.items():
            record = self.cluster.grants.devices.get(uuid)
            if uuid in self.choices.of_device:
                if record is None:
                    unusable.append(index)
            elif record is not None and not record.released and not record.wishes:
                usable.append(index)
        return tuple(usable), tuple(unusable)


class WhatIf:
    """The choices of one decision so far, entered in the stores; closing it undoes them."""

    def __init__(self, future: FutureFleet, now: Instant) -> None:
        self.now = now
        self._future = future
        self._choices = future.choices
        self._capacity = future.new_nodes.capacity
        self._fleet = future.cluster.fleet
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()

    def hold(self, holds: Iterable[Hold]) -> None:
        """Hold these places."""
        for hold in holds:
            self._fleet.hold(hold)
            self._undo.append(partial(self._fleet.withdraw, hold))

    def choose(self, name: str, chosen: ScaleChosen) -> None:
        """Count this choice: in the pool, in its group, and with its places."""
        choice = OpenChoice(f"?{len(self._undo)}", name, chosen, self.now, "")
        if name == ADD:
            self._add_node(choice)
        else:
            for part in chosen.parts:
                self._grow(part.node, part.count, part.device_model)
            for device in chosen.devices:
                self._take_away(device)
        self._undo.append(self._capacity.forget)
        self._choices.add(choice)
        self._undo.append(partial(self._choices.remove, choice.id))
        self._capacity.count_chosen(choice)
        self._keep(choice)

    def _add_node(self, choice: OpenChoice) -> None:
        self._fleet.add_node(self._future.new_nodes.shape_of(choice))
        self._undo.append(partial(self._fleet.remove_node, choice.chosen.node))

    def _grow(self, name: str, count: int, model: str) -> None:
        before = self._fleet.ledger.node(name).shape.gpu_model
        grow(self._fleet, name, count, model=model)
        self._undo.append(partial(shrink, self._fleet, name, count, model=before))

    def _take_away(self, device: str) -> None:
        attachment = self._future.attachments.of_device.get(device)
        description = self._future.cluster.nodes.description(attachment.node) if attachment is not None else None
        if attachment is None or description is None:
            return
        index = next((index for index, uuid in description.present.items() if uuid == device), None)
        if index is not None and index not in self._fleet.ledger.node(attachment.node).broken:
            self._fleet.set_device_usable(attachment.node, index, False)
            self._undo.append(partial(self._fleet.set_device_usable, attachment.node, index, True))

    def _keep(self, choice: OpenChoice) -> None:
        record = self._future.jobs.records.get(choice.chosen.jobs[0]) if choice.chosen.jobs else None
        if record is None:
            return
        groups = record.shape.gang.groups
        for place in choice.chosen.places:
            for _ in range(place.replicas):
                hold = hold_on(self._fleet, place.node, groups[place.group].shape)
                if hold is None:
                    break
                self.hold((hold,))
