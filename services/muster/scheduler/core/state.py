"""All stores of the scheduler. Folds change them (`core`, `fold`), decisions only read them (`cycle`).

A decision may change caches: which pending queues were tried, proposals, which jobs need no answer. Caches derive from
the other stores, and dropping them costs only time.
"""

from collections import Counter
from dataclasses import dataclass, field

from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger, LedgerListener
from muster.cluster.node_records import NodeTable
from muster.core.contact import Contact
from muster.placement import Fleet
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.bookings import Bookings
from muster.scheduler.core.stores.capacity import Capacity, Demand
from muster.scheduler.core.stores.drains import LaterRequests, PlannedDrains
from muster.scheduler.core.stores.due import Arrivals, DueJobs
from muster.scheduler.core.stores.holders import Holders
from muster.scheduler.core.stores.jobs import JobBook
from muster.scheduler.core.stores.pending_queues import PendingQueues
from muster.scheduler.core.stores.proposals import Proposals
from muster.scheduler.core.stores.reservations import Reservations
from muster.scheduler.core.stores.runs import Runs
from muster.schemas.facts.control import ClusterDescribed, ClusterSummary


@dataclass(slots=True)
class ClusterStatus:
    """The cluster as the federation and the agent report it."""

    described: ClusterDescribed = field(default_factory=ClusterDescribed)
    """The cluster's capabilities, as its agent reports them."""
    contact: Contact = field(default_factory=Contact)
    """Contact with the federation."""
    contact_lost_at: int = 0
    """When jobs were last asked to end because contact was lost; 0 if none is ending for it."""
    pages_read_at: int = 0
    """The newest reading of a job's GPU pages."""


@dataclass(slots=True)
class LastSummary:
    """The cluster's utilization as last reported to the federation."""

    numbers: ClusterSummary | None = None
    at: int = 0
    is_stale: bool = False
    """Whether something changed since the numbers were taken."""


@dataclass(slots=True)
class Progress:
    """Counters by which policies notice that facts were folded."""

    folded: int = 0
    """Number of facts folded in total."""
    facts: int = 0
    """Facts since the last `checkpoint-requested`."""
    checkpoint_cause: str = ""
    """The fact that was folded last."""
    generation: int = 0
    """Grows when a job, queue or node changed."""
    checkpoints: int = 0
    """Grows when a job wrote a checkpoint."""


@dataclass(slots=True)
class State:
    """The stores, and the callbacks between them."""

    cluster: str
    jobs: JobBook = field(default_factory=JobBook)
    arrivals: Arrivals = field(default_factory=Arrivals)
    demand: Demand = field(default_factory=Demand)
    due: DueJobs = field(default_factory=DueJobs)
    runs: Runs = field(default_factory=Runs)
    queues: QueueTree = field(default_factory=QueueTree)
    pending: PendingQueues = field(init=False)
    nodes: NodeTable = field(default_factory=NodeTable)
    fleet: Fleet = field(default_factory=Fleet)
    capacity: Capacity = field(default_factory=Capacity)
    grants: Grants = field(init=False)
    ledger: Ledger = field(init=False)
    holders: Holders = field(init=False)
    bookings: Bookings = field(init=False)
    reservations: Reservations = field(init=False)
    proposals: Proposals = field(init=False)
    drains: PlannedDrains = field(init=False)
    later_requests: LaterRequests = field(default_factory=LaterRequests)
    status: ClusterStatus = field(default_factory=ClusterStatus)
    summary: LastSummary = field(default_factory=LastSummary)
    progress: Progress = field(default_factory=Progress)
    anomalies: Counter[str] = field(default_factory=Counter)
    """Facts that fitted no state, counted by what was wrong."""

    def __post_init__(self) -> None:
        bookings = self.bookings = Bookings(self.fleet)
        self.proposals = Proposals(self.nodes, self.fleet, bookings)
        self.drains = PlannedDrains(self.nodes, bookings)
        self.grants = Grants(self.nodes, self.fleet, on_change=self.drains.follow)
        listener = LedgerListener(bookings.give_way, bookings.touch, self.proposals.clear)
        self.ledger = Ledger(self.nodes, self.fleet, self.grants, listener)
        self.holders = Holders(self.nodes)
        self.reservations = Reservations(bookings)
        self.pending = PendingQueues(self.fleet.rooms, self.queues)
