"""Why a job waits or stands in its phase: a fixed vocabulary, with hints."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from muster.placement import Shortage
from muster.quota.amounts import Amounts
from muster.quota.formulas import Ceiling
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.job import Phase


class Reason(StrEnum):
    """Stable codes. The codes of a shortage are the codes of the placement engine."""

    NO_NODE = "no-node"
    MODEL = "model"
    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"
    FRAGMENTED = "fragmented"
    TOPOLOGY = "topology"
    HEALTH = "health"
    RESERVATION = "reservation"
    MAINTENANCE = "maintenance"
    QUOTA = "quota"
    BORROWING_LIMIT = "borrowing-limit"
    NON_PREEMPTIBLE = "non-preemptible"
    BEHIND = "behind"
    TURN = "turn"
    HELD = "held"
    RECALLED = "recalled"
    NO_CONTACT = "no-contact"
    RELEASED = "released"
    UNKNOWN_QUEUE = "unknown-queue"
    CLOSED_QUEUE = "closed-queue"
    TOO_LARGE = "too-large"
    NO_SHARING = "no-sharing"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    NODE_LOSSES = "node-losses"
    PREFLIGHT = "preflight"
    RUN_TIME = "run-time"


class Blocked(NamedTuple):
    """Why the first job of a pending queue cannot run."""

    reason: str
    """A stable code."""
    detail: str
    """A sentence with the numbers."""


def of_shortage(shortage: Shortage) -> Blocked:
    """Return the reason for a shortage of the fleet."""
    return Blocked(Reason(shortage.reason.value), shortage.detail)


OF_QUOTA = frozenset({Reason.QUOTA, Reason.BORROWING_LIMIT, Reason.NON_PREEMPTIBLE})
"""Reasons that a queue's quota or limits give."""


def of_ceiling(ceiling: Ceiling, *, wanted: Amounts) -> Blocked:
    """Return the reason for a queue's quota or limit that is used up."""
    asked, held = wanted.get(ceiling.resource, 0), ceiling.held
    number, unit = _READ.get(ceiling.resource, (_thousandths, f"{ceiling.resource.partition(':')[2]} GPUs"))
    holds = {
        Reason.QUOTA: f"queue {ceiling.queue} and those below it hold {number(held)} of {number(ceiling.limit)} {unit}",
        Reason.BORROWING_LIMIT: f"queue {ceiling.queue} holds {number(held)} of at most {number(ceiling.limit)} {unit}",
        Reason.NON_PREEMPTIBLE: f"jobs of queue {ceiling.queue} that may not be preempted hold {number(held)} of its "
        f"quota of {number(ceiling.limit)} {unit}",
    }
    left = f", {number(ceiling.available)} are left for it" if 0 < ceiling.available < ceiling.limit - held else ""
    return Blocked(ceiling.reason, f"{holds[Reason(ceiling.reason)]}, the job needs {number(asked)}{left}")


def gpus(milli: int) -> str:
    """Format milli-GPUs as GPUs."""
    return _thousandths(milli)


def _thousandths(amount: int) -> str:
    return f"{amount / 1000:g}"


def _gib(mib: int) -> str:
    return f"{mib / 1024:g}"


_READ: dict[str, tuple[Callable[[int], str], str]] = {
    GPU: (_thousandths, "GPUs"),
    CPU: (_thousandths, "cores"),
    MEMORY: (_gib, "GiB of memory"),
}


def hint_of(reason: str, *, never: Ceiling | None, lacks: str = "", may_grow: bool = False) -> str:
    """Return a hint on how the job could start.

    `never` is the limit that is too low for the job even if the queue holds nothing. `lacks` says why the job would not
    fit even on an empty cluster with all nodes usable. `may_grow`: scaling may add nodes and devices.
    """
    if lacks and reason in OF_NODES and may_grow:
        less = f"request less: the job does not fit on the present nodes even if no other job runs ({lacks})"
        return f"wait until scaling adds GPUs or nodes, or {less}"
    if lacks and reason in _OF_ROOM:
        return f"request less, or add nodes: it does not fit even if no other job runs ({lacks}); waiting does not help"
    if reason in OF_QUOTA and never is not None:
        if never.reason == Reason.NON_PREEMPTIBLE:
            return f"make the job preemptible, or have the quota of queue {never.queue} raised; waiting does not help"
        what = "quota" if never.reason == Reason.QUOTA else "limit"
        return f"have the {what} of queue {never.queue} raised, or request less; waiting does not help"
    return HINTS.get(reason, "")


_OF_ROOM = frozenset({Reason.GPU, Reason.CPU, Reason.MEMORY, Reason.FRAGMENTED})
"""Reasons for which a job waits until other jobs end."""

OF_NODES = _OF_ROOM | {Reason.NO_NODE, Reason.MODEL, Reason.TOPOLOGY}
"""Reasons that more GPUs or nodes may resolve."""

HINTS: dict[str, str] = {
    Reason.NO_NODE: "add nodes to the cluster, and wait until they are schedulable",
    Reason.MODEL: "allow another GPU model, or add nodes of an allowed one",
    Reason.GPU: "wait until running jobs end, or request fewer GPUs",
    Reason.CPU: "wait until running jobs end, or request less CPU per replica",
    Reason.MEMORY: "wait until running jobs end, or request less memory per replica",
    Reason.FRAGMENTED: "wait until jobs on one node end, or request smaller replicas",
    Reason.TOPOLOGY: "prefer the topology level instead of requiring it, or choose a wider level",
    Reason.HEALTH: "wait until the nodes or devices are healthy and schedulable, or have them repaired",
    Reason.RESERVATION: "wait until the reservation ends, or request a time slice that ends before it starts",
    Reason.MAINTENANCE: "wait until the maintenance of the nodes ends, or request a shorter total run time",
    Reason.QUOTA: "wait until jobs of this tree of queues end, or have its quota raised",
    Reason.BORROWING_LIMIT: "wait until jobs of this queue end, or have its borrowing limit raised",
    Reason.NON_PREEMPTIBLE: "make the job preemptible, or wait until non-preemptible jobs of this queue end",
    Reason.BEHIND: "wait: the job is tried after the jobs of the same shape in front of it",
    Reason.TURN: "wait: the job is tried in the next cycle",
    Reason.HELD: "release the job: it keeps its position in the queue",
    Reason.RECALLED: "nothing to do: the job keeps its age on any cluster",
    Reason.NO_CONTACT: "wait until the link to the federation is back; `pin` jobs that should run without it",
}

PHASE_REASONS: dict[Phase, tuple[str, str]] = {
    Phase.PLACED: (Reason.STARTING, "the gang is placed; its pods are starting"),
    Phase.RUNNING: (Reason.RUNNING, "all pods run"),
    Phase.STOPPING: (Reason.STOPPING, "its pods are terminating"),
}


def unknown_queue(name: str) -> Blocked:
    """Return the reason for a queue that does not exist, or not yet."""
    return Blocked(Reason.UNKNOWN_QUEUE, f"there is no queue {name}")
