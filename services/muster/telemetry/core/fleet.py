"""How the nodes' exporters are, as each was read last."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import Instant
from muster.schemas.telemetry import ExporterState, NodeSample


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One node. expected: devices by the log; seen: on the page. missing: how many of these are not there.

    was_there: somebody answered in this term; one where nobody did counts as down, and is asked seldom.
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


class FleetLook:
    """Of all nodes that were read in this term. nodes: for reading."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeLook] = {}

    def see(self, sample: NodeSample) -> None:
        """A node was read, or could not be."""
        before = self.nodes.get(sample.node)
        self.nodes[sample.node] = NodeLook(
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
        """The node is gone."""
        self.nodes.pop(node, None)

    def reset(self) -> None:
        """A new term."""
        self.nodes.clear()

    def in_state(self, state: ExporterState) -> Iterator[str]:
        """Nodes whose exporter is in this state."""
        return (name for name, look in self.nodes.items() if look.state is state)
