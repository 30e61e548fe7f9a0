"""Parameters of the comparison."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster_tools.bench.workload import GPU_CYCLE

GPUS_PER_NODE = 8


class Contender(StrEnum):
    """The contenders, in the order in which they run."""

    FLOOR = "floor"
    DEFAULT = "kube-scheduler"
    BIN_PACKING = "kube-scheduler-packing"
    OLD_STACK = "old-stack"
    CLAIMS = "kube-scheduler-dra"
    MUSTER = "muster"
    MUSTER_CLAIMS = "muster-dra"


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of the comparison.

    workloads: number of pods of 1 to 8 GPUs. nodes: number of nodes with 8 GPUs. limit_s: time limit of one contender,
    from its first workload. connections: of the submitter. batch: jobs in one request to Muster; an API server accepts
    one pod per request. subscribers: extra clients at the end. out: folder for charts and figures, or None.
    """

    workloads: int
    nodes: int
    contenders: tuple[Contender, ...] = tuple(Contender)
    limit_s: float = 300.0
    connections: int = 32
    batch: int = 1
    subscribers: int = 100
    out: Path | None = None

    @property
    def gpus(self) -> tuple[int, ...]:
        """Return the number of GPUs of each workload."""
        return tuple(GPU_CYCLE[number % len(GPU_CYCLE)] for number in range(self.workloads))

    @property
    def fits(self) -> bool:
        """Return whether all workloads fit: their sizes divide 8, so the sum decides."""
        return sum(self.gpus) <= self.nodes * GPUS_PER_NODE


def packed(gpus: tuple[int, ...], *, per_node: int = GPUS_PER_NODE) -> tuple[int, ...]:
    """Return the node of each workload, largest first onto the first node with room: a packing without gaps."""
    nodes = [0] * len(gpus)
    node = used = 0
    for number in sorted(range(len(gpus)), key=lambda at: -gpus[at]):
        if used + gpus[number] > per_node:
            node, used = node + 1, 0
        nodes[number] = node
        used += gpus[number]
    return tuple(nodes)
