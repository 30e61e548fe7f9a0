"""All that the scaler believes. Folds change it (`fold*.py`), decisions only read it.

What a decision may touch are caches: what is entered in the fleet as if it were there, and what was tried in vain. They
follow from the rest, and dropping them costs time, not truth.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core import Instant
from muster.placement import NodeShape
from muster.quota.amounts import changes
from muster.quota.queues import QueueTree
from muster.scaler.core import limits
from muster.scaler.core.attachments import COMING, NOT_YET_ATTACHED, Attachments
from muster.scaler.core.books import ScalerBooks
from muster.scaler.core.choices import ATTACH, Choices, OpenChoice
from muster.scaler.core.coming import Expected, Kept
from muster.scaler.core.demand import Demand
from muster.scaler.core.groups import NodeGroup, ScalingConfig, shown_spec
from muster.scaler.core.idle import IdleClock
from muster.scaler.core.jobs import WAITING, JobRecord, JobTable
from muster.scaler.core.pool import Pool
from muster.scaler.core.signals import SignalBook
from muster.schemas.devices import GPU
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import Refused
from muster.schemas.queries import ScaleChoiceView


@dataclass(slots=True)
class State:
    """chosen: how many choices were ever made. moved_at: when a device or node was last added to or taken from a node
    or group, by name. failed_at: when a choice last failed, by group or fabric. served_at: jobs for which a choice was
    carried out, and when. refused: what `nothing-chosen` said last, by job or node. ended: the newest, oldest first.
    anomalies: facts that fitted nothing, by what. moves: grows with every fact that may change a decision.
    """

    config: ScalingConfig
    books: ScalerBooks = field(default_factory=ScalerBooks)
    queues: QueueTree = field(default_factory=QueueTree)
    jobs: JobTable = field(default_factory=JobTable)
    demand: Demand = field(default_factory=Demand)
    pool: Pool = field(default_factory=Pool)
    attachments: Attachments = field(default_factory=Attachments)
    choices: Choices = field(default_factory=Choices)
    signals: SignalBook = field(default_factory=SignalBook)
    idle: IdleClock = field(init=False)
    chosen: int = 0
    moved_at: dict[str, Instant] = field(default_factory=dict)
    failed_at: dict[str, Instant] = field(default_factory=dict)
    served_at: dict[str, Instant] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    ended: deque[ScaleChoiceView] = field(default_factory=lambda: deque(maxlen=limits.ENDED_KEPT))
    anomalies: Counter[str] = field(default_factory=Counter)
    moves: int = 0

    def __post_init__(self) -> None:
        self.idle = IdleClock(self.config)

    # --- groups ----------------------------------------------------------------------------------------------

    def group_of(self, node: str) -> NodeGroup | None:
        """The configured group of a node that is part of the cluster."""
        return self.config.groups.get(self.books.group_of(node))

    def members(self, group: str) -> dict[str, None]:
        """Nodes that the group has, will have, or had until it is known that they are gone."""
        return {**self.books.nodes_in(group), **dict.fromkeys(self.nodes_coming(group))}

    def nodes_coming(self, group: str) -> list[str]:
        """Nodes of a group that were chosen and have not joined."""
        return [
            choice.chosen.node
            for choice in self.choices.in_order()
            if choice.chosen.group == group
            and self.choices.adding(choice.chosen.node) is choice
            and self.books.describe(choice.chosen.node) is None
        ]

    # --- pools -----------------------------------------------------------------------------------------------

    def pool_left(self, fabric: str, model: str) -> int:
        """GPUs of a pool that are kept for nobody: not for attachments, nor for what was chosen."""
        kept = self.attachments.kept.get((fabric, GPU, model), 0)
        for choice in self.choices.open.values():
            if choice.serves:
                kept += sum(
                    self.part_left(choice, part.node, part.count)
                    for part in choice.chosen.parts
                    if (part.fabric, part.device_model) == (fabric, model)
                )
                kept -= self.devices_back(choice, fabric, model)
        return max(0, self.pool.free(fabric, model) - max(0, kept))

    def part_left(self, choice: OpenChoice, node: str, count: int) -> int:
        """Devices of one part of a choice for which the composer has not begun an attachment."""
        begun = self.attachments.of_request.get(choice.id, {})
        return max(0, count - sum(attachment.node == node for attachment in begun.values()))

    def devices_back(self, choice: OpenChoice, fabric: str, model: str) -> int:
        """Devices that the choice moves and that are not back in the pool: they do not lie there for its parts."""
        found = 0
        for device in choice.chosen.devices:
            attachment = self.attachments.of_device.get(device)
            if attachment is not None and attachment.phase not in NOT_YET_ATTACHED:
                found += (attachment.fabric, attachment.model) == (fabric, model)
        return found

    # --- what is on its way -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Enter in the fleet what is on its way, where that is not done."""
        coming = self.books.coming
        for name in list(coming.stale):
            coming.enter(name, self.expected(name))

    def expected(self, name: str) -> Expected:
        """What a node will be, by what was folded about it and by the choices that concern it."""
        choices = self.choices.on_node(name)
        record = self.books.nodes.get(name)
        kept = tuple(self._kept(choices, name))
        if record is None or record.description is None:
            adding = self.choices.adding(name)
            return Expected(shape=self._new_node(adding), kept=kept) if adding is not None else Expected()
        node = record.description
        present = {uuid: index for index, uuid in node.present.items()}
        devices, model = self._devices_coming(choices, name, present)
        usable, unusable = self._devices_changing(present)
        return Expected(
            is_usable=not record.usable and not record.lost and not record.wishes,
            devices=devices if not node.device_domains else 0,
            model=model or node.gpu_model,
            usable=usable,
            unusable=unusable,
            kept=kept,
        )

    def _kept(self, choices: list[OpenChoice], name: str) -> list[Kept]:
        """Places on a node for jobs that still wait for what was chosen for them."""
        found = list[Kept]()
        for choice in choices:
            record = self.jobs.records.get(choice.chosen.jobs[0]) if choice.serves and choice.chosen.jobs else None
            if record is None or record.phase not in WAITING or record.cancelled:
                continue
            groups = record.shape.gang.groups
            found += [
                Kept(record.shape.gang, place.group, place.replicas)
                for place in choice.chosen.places
                if place.node == name and place.group < len(groups)
            ]
        return found

    def _new_node(self, choice: OpenChoice) -> NodeShape:
        """A node that is being added: of a composable group with the GPUs that are kept for it."""
        chosen = choice.chosen
        group = self.config.groups.get(chosen.group)
        if group is None:  # not configured any more
            return NodeShape(chosen.node, 0, 0, 0, "")
        parts = [part for part in chosen.parts if part.node == chosen.node]
        if not group.composable:
            return shown_spec(group, self.actual_node(group.name), name=chosen.node)
        model = parts[0].device_model if parts else ""
        return NodeShape(chosen.node, group.cpu_milli, group.memory_mib, sum(part.count for part in parts), model)

    def actual_node(self, group: str) -> NodeShape | None:
        """Any node of a group as the fleet knows it, the same for who folded the same."""
        names = self.books.nodes_in(group)
        node = self.books.describe(min(names)) if names else None
        return _shape(min(names), node) if node is not None else None

    def _devices_coming(self, choices: list[OpenChoice], name: str, present: dict[str, int]) -> tuple[int, str]:
        count, model = 0, ""
        for attachment in self.attachments.on.get(name, {}).values():
            if attachment.type == GPU and attachment.phase in COMING and attachment.device_uuid not in present:
                count, model = count + 1, attachment.model
        for choice in choices:
            if choice.name != ATTACH and self.books.describe(name) is None:
                continue
            for part in choice.chosen.parts:
                if part.node == name and (left := self.part_left(choice, name, part.count)):
                    count, model = count + left, part.device_model
        return count, model

    def _devices_changing(self, present: dict[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        usable, unusable = list[int](), list[int]()
        for uuid, index in present.items():
            record = self.books.devices.get(uuid)
            if uuid in self.choices.of_device:
                if record is None:
                    unusable.append(index)
            elif record is not None and not record.released and not record.wishes:
                usable.append(index)
        return tuple(usable), tuple(unusable)

    # --- what a fold tells -----------------------------------------------------------------------------------

    def lift(self, names: Iterable[str]) -> None:
        """What is on its way to these nodes is about to be something else."""
        for name in names:
            self.books.coming.lift(name)

    def recount(self, record: JobRecord, *, at: int = 0) -> None:
        """Let the queue count what the job holds from `at` on, whatever it counted before. 0: a checkpoint says so."""
        before = record.counted
        after = record.counted = record.amounts_held(self.books.models) if record.slots else {}
        for sign, amounts in changes(after, before):
            if amounts:
                self.queues.hold(record.shape.queue, amounts, sign=sign, preemptible=record.shape.preemptible, at=at)

    def note_moved(self, name: str, at: Instant) -> None:
        """Something was added to, or taken from, this node or group."""
        self.moved_at.pop(name, None)
        self.moved_at[name] = at
        if len(self.moved_at) > limits.MOVED_KEPT:
            del self.moved_at[next(iter(self.moved_at))]


def _shape(name: str, node: NodeJoined) -> NodeShape:
    return NodeShape(name, node.cpu_milli, node.memory_mib, len(node.present), node.gpu_model)
