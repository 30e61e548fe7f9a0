"""What is compared, and with how much."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster_tools.bench.workload import GPU_CYCLE

GPUS_PER_NODE = 8


class Contender(StrEnum):
    """Who places the workloads, in the order of the run."""

    FLOOR = "floor"
    DEFAULT = "kube-scheduler"
    BIN_PACKING = "kube-scheduler-packing"
    OLD_STACK = "old-stack"
    CLAIMS = "kube-scheduler-dra"
    MUSTER = "muster"
    MUSTER_CLAIMS = "muster-dra"


@dataclass(frozen=True, slots=True)
class Plan:
    """workloads: pods, of 1 to 8 GPUs each. nodes: of 8 GPUs. limit_s: of one contender, from its first workload on.

    connections: of whoever creates. batch: jobs in one request to Muster; an API server takes pods one by one.
    subscribers: extra ones, in the end. out: folder for charts and figures, or None.
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
        """Of each workload."""
        return tuple(GPU_CYCLE[number % len(GPU_CYCLE)] for number in range(self.workloads))

    @property
    def fits(self) -> bool:
        """Whether a packing of all of them exists: sizes divide 8, so the sum decides."""
        return sum(self.gpus) <= self.nodes * GPUS_PER_NODE


def packed(gpus: tuple[int, ...], *, per_node: int = GPUS_PER_NODE) -> tuple[int, ...]:
    """The node of each workload, largest first onto the first node that has room: a packing without gaps."""
    nodes = [0] * len(gpus)
    node = used = 0
    for number in sorted(range(len(gpus)), key=lambda at: -gpus[at]):
        if used + gpus[number] > per_node:
            node, used = node + 1, 0
        nodes[number] = node
        used += gpus[number]
    return tuple(nodes)
