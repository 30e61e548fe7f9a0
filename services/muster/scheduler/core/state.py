"""All stores of the scheduler. Folds change them (`core`, `fold`), decisions only read them (`cycle`).

What a decision may touch are caches: which pending queues were judged, what is proposed, which jobs need no answer any
more. They follow from the rest, and dropping them costs time, not truth.
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
    """The cluster as the federation and the agent tell of it."""

    described: ClusterDescribed = field(default_factory=ClusterDescribed)
    """What the cluster can do, as its agent says."""
    contact: Contact = field(default_factory=Contact)
    """Contact with the federation."""
    contact_lost_at: int = 0
    """When jobs were last told to end for want of contact, 0 once none is ending for it."""
    pages_read_at: int = 0
    """Newest reading of a job's GPUs."""


@dataclass(slots=True)
class LastSummary:
    """How full the cluster is, as it was reported to the federation last."""

    numbers: ClusterSummary | None = None
    at: int = 0
    is_stale: bool = False
    """Whether something changed since the numbers were taken."""


@dataclass(slots=True)
class Progress:
    """Counters by which policies see that something was folded."""

    folded: int = 0
    """Facts that were ever folded."""
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
    """The stores, and how they hear of each other."""

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
    """Facts that fitted no state, by what they were."""

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
