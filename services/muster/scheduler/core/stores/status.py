"""What is known of the cluster as a whole, and how far the log was folded."""

from dataclasses import dataclass, field

from muster.core.contact import Contact
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
