"""All that the scaler believes. Folds change it (`fold*.py`), decisions only read it.

What a decision may touch are caches: what is entered in the fleet as if it were there, and what was tried in vain. They
follow from the rest, and dropping them costs time, not truth.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.cluster import Holds
from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger, LedgerListener
from muster.cluster.node_records import NodeTable
from muster.core import Instant, after
from muster.core.settings import GroupSettings
from muster.placement import Fleet
from muster.quota.amounts import changes, held_amounts
from muster.quota.queues import QueueTree
from muster.scaler.core import limits
from muster.scaler.core.bookings import Bookings
from muster.scaler.core.capacity import Capacity
from muster.scaler.core.choices import ADD, ATTACH, Choices, EndedChoice, OpenChoice
from muster.scaler.core.expected import ChangedNodes, Coming
from muster.scaler.core.fabrics import Attachments, Pool
from muster.scaler.core.groups import NodeGroups, ScalingConfig
from muster.scaler.core.idle import IdleClock
from muster.scaler.core.jobs import Demand, JobRecord, JobTable
from muster.scaler.core.signals import SignalBook
from muster.schemas.facts.scale import Refused
from muster.schemas.job import Slot

BEGIN = Instant(0)
"""Before anything was decided."""


@dataclass(slots=True)
class State:
    """chosen: how many choices were ever made. moved_at: when a device or node was last added to or taken from a node
    or group, by name. failed_at: when a choice last failed, see `rests_until`. served_at: jobs for which a choice was
    carried out, and when. refused: what `nothing-chosen` said last, by job or node. ended: the newest, oldest first.
    withheld: nodes that the scheduler may have given for a choice that is over, see `ends`.
    anomalies: facts that fitted nothing, by what. moves: grows with every fact that may change a decision; supply: with
    those that may give somebody what was not to be had, last at supplied_at, places that came free apart: with these
    grows freed, last at freed_at. taken: grows when a job takes places. now: of the decision that is being made.
    """

    config: ScalingConfig
    nodes: NodeTable = field(default_factory=NodeTable)
    fleet: Fleet = field(default_factory=Fleet)
    holds: Holds = field(default_factory=Holds)
    grants: Grants = field(init=False)
    ledger: Ledger = field(init=False)
    coming: Coming = field(init=False)
    changed: ChangedNodes = field(init=False)
    node_groups: NodeGroups = field(init=False)
    queues: QueueTree = field(default_factory=QueueTree)
    jobs: JobTable = field(default_factory=JobTable)
    demand: Demand = field(default_factory=Demand)
    pool: Pool = field(default_factory=Pool)
    attachments: Attachments = field(default_factory=Attachments)
    choices: Choices = field(default_factory=Choices)
    signals: SignalBook = field(default_factory=SignalBook)
    bookings: Bookings = field(default_factory=Bookings)
    idle: IdleClock = field(init=False)
    capacity: Capacity = field(init=False)
    chosen: int = 0
    moved_at: dict[str, Instant] = field(default_factory=dict)
    failed_at: dict[str, Instant] = field(default_factory=dict)
    served_at: dict[str, Instant] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    withheld: dict[str, None] = field(default_factory=dict)
    ended: deque[EndedChoice] = field(default_factory=lambda: deque(maxlen=limits.ENDED_KEPT))
    anomalies: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    supply: int = 0
    taken: int = 0
    freed: int = 0
    supplied_at: Instant = field(default=BEGIN)
    freed_at: Instant = field(default=BEGIN)
    now: Instant = field(default=BEGIN)

    def __post_init__(self) -> None:
        self.coming = Coming(self.fleet)
        self.changed = ChangedNodes(self.coming)
        self.node_groups = NodeGroups(self.nodes)
        self.capacity = Capacity(
            self.config,
            nodes=self.nodes,
            fleet=self.fleet,
            node_groups=self.node_groups,
            pool=self.pool,
            attachments=self.attachments,
            choices=self.choices,
        )
        self.grants = Grants(self.nodes, self.fleet)
        mark = self.changed.mark
        self.ledger = Ledger(self.nodes, self.fleet, self.grants, LedgerListener(mark, mark, mark))
        self.idle = IdleClock(self.config, self.nodes, self.fleet, self.holds)

    # --- groups ----------------------------------------------------------------------------------------------

    def group_of(self, node: str) -> GroupSettings | None:
        """The configured group of a node that is part of the cluster."""
        return self.config.groups.get(self.node_groups.group_of(node))

    # --- what a fold tells -----------------------------------------------------------------------------------

    def lift(self, names: Iterable[str]) -> None:
        """What is on its way to these nodes is about to be something else."""
        for name in names:
            self.coming.lift(name)

    def find_node(self, device: str) -> None:
        """A device that was seen on a machine before its node was known belongs to the node that shows it."""
        attachment = self.attachments.of_device.get(device)
        node = self.nodes.node_of("device", device)
        if attachment is not None and node and not attachment.node:
            self.attachments.remove(attachment.id)
            attachment.node = node
            self.attachments.put(attachment)

    def slots_held(self, job_id: str) -> tuple[Slot, ...]:
        """Return the slots that a job holds, also those that a resize adds."""
        hold = self.holds.jobs.get(job_id)
        return () if hold is None else hold.held

    def recount(self, record: JobRecord, *, at: int = 0) -> None:
        """Let the queue count what the job holds from `at` on, whatever it counted before. 0: a checkpoint says so."""
        before = record.counted
        slots, models = self.slots_held(record.id), self.node_groups.models
        after = held_amounts(slots, record.shape.gang, lambda node: models.get(node, "")) if slots else {}
        record.counted = after
        for sign, amounts in changes(after, before):
            if amounts:
                self.queues.hold(record.shape.queue, amounts, sign=sign, preemptible=record.shape.preemptible, at=at)

    def note_failed(self, choice: OpenChoice, at: Instant) -> None:
        """The choice could not be carried out: its fabrics, or its group, are left alone for a while."""
        if choice.name == ATTACH:
            names = {f"fabric/{part.fabric}" for part in choice.chosen.parts}
        else:
            names = {choice.chosen.group if choice.name == ADD else f"removal/{choice.chosen.group}"}
        for name in sorted(names):
            self.failed_at[name] = at

    def rests_until(self, name: str) -> Instant:
        """Until when it is left alone after a failure; 0 if it is not.

        A group by its name; its removals as `removal/NAME`, a fabric as `fabric/NAME`.
        """
        failed_at = self.failed_at.get(name)
        return Instant(0) if failed_at is None else after(failed_at, self.config.settings.delay_after_failure_s)

    def note_moved(self, name: str, at: Instant) -> None:
        """Something was added to, or taken from, this node or group."""
        self.moved_at.pop(name, None)
        self.moved_at[name] = at
        if len(self.moved_at) > limits.MOVED_KEPT:
            del self.moved_at[next(iter(self.moved_at))]
