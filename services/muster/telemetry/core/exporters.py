"""State of nodes' exporters in one term: the last reading, whether the page changes, when to ask again."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from zlib import crc32

from muster.core import Instant, seconds_between
from muster.schemas.facts.node import NodeJoined
from muster.schemas.telemetry import ExporterState, NodeSample
from muster.telemetry.core.pages import Page


@dataclass(frozen=True, slots=True)
class NodeExporter:
    """One node. expected: devices by the log; seen: on the page. missing: number of expected devices not on the page.

    was_there: the exporter answered in this term; otherwise it counts as down, and is asked seldom.
    """

    at: Instant
    state: ExporterState
    model: str
    expected: int
    seen: int
    held: int
    power_w: float
    was_there: bool = True

    @property
    def missing(self) -> int:
        """Devices that a page which could be read does not show."""
        return max(0, self.expected - self.seen) if self.state is ExporterState.OK else 0


class ExporterStates:
    """Exporters of all nodes that were read in this term. nodes: read-only."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeExporter] = {}

    def see(self, sample: NodeSample) -> None:
        """Record a reading of a node, or its failure."""
        before = self.nodes.get(sample.node)
        self.nodes[sample.node] = NodeExporter(
            Instant(sample.at),
            sample.exporter,
            sample.gpu_model,
            expected=sample.gpus_expected or 0,
            seen=len(sample.devices),
            held=sum(bool(device.job_ids) for device in sample.devices),
            power_w=sum(device.power_w for device in sample.devices),
            was_there=sample.exporter is not ExporterState.DOWN or (before is not None and before.was_there),
        )

    def forget(self, node: str) -> None:
        """Remove the node."""
        self.nodes.pop(node, None)

    def reset(self) -> None:
        """Start a new term."""
        self.nodes.clear()

    def in_state(self, state: ExporterState) -> Iterator[str]:
        """Return the nodes whose exporter is in this state."""
        return (name for name, look in self.nodes.items() if look.state is state)


Print = tuple[float, ...]


@dataclass(slots=True)
class _LastChange:
    values: Print
    since: Instant


class Freshness:
    """Time of the last change of each node's page. stale_s: maximum time without a change."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._seen: dict[str, _LastChange] = {}

    def is_stale(self, node: str, page: Page, at: Instant) -> bool:
        """Return whether the page has not changed for too long; never for a page without energy and power."""
        values = _print(page)
        known = self._seen.get(node)
        if not values or known is None or known.values != values:
            self._seen[node] = _LastChange(values, at)
            return False
        return seconds_between(known.since, at) >= self._stale_s

    def forget(self, node: str) -> None:
        """Record that the node's page could not be read."""
        self._seen.pop(node, None)

    def keep(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        for node in [node for node in self._seen if node not in nodes]:
            del self._seen[node]


def _print(page: Page) -> Print:
    """Return the values that always change on a working GPU: the power of an idle one varies too."""
    told = (value for gpu in page.gpus for value in (gpu.shown.energy_mj, gpu.shown.power_w))
    return tuple(float(value) for value in told if value is not None)


ROUNDS_MAX = 16
"""A node that never answered is asked at least once in this number of rounds."""


@dataclass(slots=True)
class _Attempts:
    """misses: attempts without an answer, until the first answer. next_round: first round to ask it again."""

    description: NodeJoined | None
    answers: bool = False
    misses: int = 0
    next_round: int = 0


class ScrapeBackoff:
    """Backoff of one term. A node that joins again, perhaps with another address, starts over."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Attempts] = {}

    def is_due(self, name: str, description: NodeJoined | None, number: int) -> bool:
        """Return whether the node is asked in the round of this number. description: the current one in the log."""
        node = self._nodes.get(name)
        return node is None or node.description is not description or node.answers or number >= node.next_round

    def record_attempt(self, name: str, description: NodeJoined | None, number: int, *, somebody: bool) -> None:
        """Record an attempt of that round. `somebody`: whether a server took the connection."""
        node = self._nodes.get(name)
        if node is None or node.description is not description:
            node = self._nodes[name] = _Attempts(description)
        node.answers |= somebody
        if not node.answers:
            rounds = min(2**node.misses, ROUNDS_MAX)
            node.next_round = number + rounds - crc32(name.encode()) % (rounds // 2 + 1)  # not all in the same round
            node.misses = min(node.misses + 1, ROUNDS_MAX)

    def keep(self, names: Container[str]) -> None:
        """Forget all nodes but these."""
        for name in [name for name in self._nodes if name not in names]:
            del self._nodes[name]
