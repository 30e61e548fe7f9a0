"""Why a job is where it is: a fixed vocabulary, with what would help."""

from enum import StrEnum
from typing import NamedTuple

from muster.placement import Shortage
from muster.scheduler.core.queues import Ceiling
from muster.schemas.job import Phase


class Reason(StrEnum):
    """Stable codes. Those of a shortage are the placement engine's own."""

    NO_NODE = "no-node"
    MODEL = "model"
    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"
    FRAGMENTED = "fragmented"
    TOPOLOGY = "topology"
    QUEUE_LIMIT = "queue-limit"
    BEHIND = "behind"
    TURN = "turn"
    UNKNOWN_QUEUE = "unknown-queue"
    CLOSED_QUEUE = "closed-queue"
    TOO_LARGE = "too-large"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    NODE_LOSSES = "node-losses"
    RUN_TIME = "run-time"


class Blocked(NamedTuple):
    """Why the first in line cannot run now. reason: a code; detail: a sentence with the numbers."""

    reason: str
    detail: str


def of_shortage(shortage: Shortage) -> Blocked:
    """The fleet has no place."""
    return Blocked(Reason(shortage.reason.value), shortage.detail)


def of_ceiling(ceiling: Ceiling, *, wanted_milli: int) -> Blocked:
    """A queue's limit leaves no room."""
    return Blocked(
        Reason.QUEUE_LIMIT,
        f"queue {ceiling.queue} holds {gpus(ceiling.held_milli)} of at most {gpus(ceiling.limit_milli)} GPUs, "
        f"the job needs {gpus(wanted_milli)}",
    )


def gpus(milli: int) -> str:
    """Milli-GPUs as people read them."""
    return f"{milli / 1000:g}"


def cure_of(reason: str, *, never: Ceiling | None) -> str:
    """What would help. never: the limit that is too low for the job even when the queue holds nothing."""
    if reason == Reason.QUEUE_LIMIT and never is not None:
        return f"have the limit of queue {never.queue} raised, or ask for fewer GPUs; waiting does not help"
    return CURES.get(reason, "")


CURES: dict[str, str] = {
    Reason.NO_NODE: "nodes must join and be released",
    Reason.MODEL: "allow another GPU model, or add nodes of an allowed one",
    Reason.GPU: "wait until running jobs end, or ask for fewer GPUs",
    Reason.CPU: "wait until running jobs end, or ask for less CPU per replica",
    Reason.MEMORY: "wait until running jobs end, or ask for less memory per replica",
    Reason.FRAGMENTED: "wait until jobs on one node end, or ask for smaller replicas",
    Reason.TOPOLOGY: "prefer the topology level instead of requiring it, or choose a wider one",
    Reason.QUEUE_LIMIT: "wait until jobs of this queue end, or have its limit raised",
    Reason.BEHIND: "it is tried after the jobs of the same shape in front of it",
    Reason.TURN: "it is tried in the next cycle",
}

PHASE_REASONS: dict[Phase, tuple[str, str]] = {
    Phase.PLACED: (Reason.STARTING, "the gang has its places; its pods are starting"),
    Phase.RUNNING: (Reason.RUNNING, "all pods run"),
    Phase.STOPPING: (Reason.STOPPING, "its pods were asked to end"),
}
