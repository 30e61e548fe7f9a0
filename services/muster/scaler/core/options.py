"""Options for a job and their costs: compared by devices, then watts, then seconds, as configured.

Watts: additional power once the attached or added devices are busy; a device in the pool draws nothing. Seconds: from
the choice until a job may use it; devices of one choice are attached in parallel.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.core.settings import GroupSettings
from muster.placement import Hold
from muster.scaler.core.groups import ScalingConfig
from muster.schemas.facts.scale import ScalePart, ScalePlace


@dataclass(frozen=True, slots=True)
class Option:
    """One way to make room for a gang."""

    parts: tuple[ScalePart, ...] = ()
    """GPUs that nodes get, by node."""
    nodes: tuple[str, ...] = ()
    """Names of nodes that are added."""
    group: str = ""
    devices: tuple[str, ...] = ()
    """UUIDs of devices that are moved from other nodes."""
    places: tuple[ScalePlace, ...] = ()
    """Where the gang would be placed."""
    watts: float = 0.0
    """Additional power once the gang runs."""
    ready_s: float = 0.0
    """Seconds until the gang may run."""

    @property
    def gpus(self) -> int:
        """Number of attached devices."""
        return sum(part.count for part in self.parts)

    @property
    def key(self) -> tuple[int, float, float]:
        """Sort key, cheapest first: fewest devices, then least power, then fastest."""
        return self.gpus, self.watts, self.ready_s

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the devices, each once."""
        return tuple(dict.fromkeys([part.device_model for part in self.parts]))


@dataclass(frozen=True, slots=True)
class Lack:
    """Why there is no option."""

    code: str
    """A code of a fixed vocabulary."""
    reason: str
    """A sentence with the numbers."""


def attached_watts(config: ScalingConfig, parts: Iterable[ScalePart]) -> float:
    """Return the power of devices from the pool that become busy."""
    return sum(part.count * config.model(part.device_model).busy_w for part in parts)


def moved_watts(config: ScalingConfig, models: Iterable[str]) -> float:
    """Return the difference for devices that were idle on another node: they draw that much less than from the pool."""
    return -sum(config.model(model).idle_w for model in models)


def attach_s(config: ScalingConfig, models: Iterable[str], *, are_moved: bool = False) -> float:
    """Return the time of the slowest device; with `are_moved`, some have to leave another node first."""
    known = [config.model(model) for model in models]
    back_s = max([model.detach_s for model in known], default=0.0) if are_moved else 0.0
    return back_s + max([model.attach_s for model in known], default=0.0)


def added_watts(config: ScalingConfig, group: GroupSettings, nodes: int, parts: Iterable[ScalePart]) -> float:
    """Return the power of added nodes that become busy, with their GPUs."""
    if group.composable:
        return nodes * group.busy_w + attached_watts(config, parts)
    gpus_w = group.gpus * config.model(group.gpu_models[0]).busy_w if group.gpu_models else 0.0
    return nodes * (group.busy_w + gpus_w)


def added_s(config: ScalingConfig, group: GroupSettings, parts: Iterable[ScalePart]) -> float:
    """Return the time to add a node and then attach its GPUs."""
    models = {part.device_model for part in parts} if group.composable else set[str]()
    return group.provision_s + attach_s(config, models)


def places_of(holds: Sequence[Hold]) -> tuple[ScalePlace, ...]:
    """Return where the replicas of a gang are placed, by node and group."""
    counts = dict[tuple[str, int], int]()
    for hold in holds:
        key = hold.slot.node, hold.slot.group
        counts[key] = counts.get(key, 0) + 1
    return tuple(ScalePlace(node=node, group=group, replicas=n) for (node, group), n in sorted(counts.items()))
