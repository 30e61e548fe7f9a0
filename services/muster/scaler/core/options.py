"""What could be done for a job, and what it would cost: compared by devices, then power, then time."""

from dataclasses import dataclass, field

from muster.schemas.facts.scale import Alternative, ScalePart, ScalePlace


@dataclass(frozen=True, slots=True)
class Option:
    """One way to make room for a gang.

    parts: devices that nodes get. nodes: names of nodes that are added. devices: uuids that are moved from elsewhere.
    places: where the gang would stand. watts: more than now, once it runs. ready_s: until it may run.
    detail: with numbers, for reasons.
    """

    parts: tuple[ScalePart, ...] = ()
    nodes: tuple[str, ...] = ()
    group: str = ""
    devices: tuple[str, ...] = ()
    places: tuple[ScalePlace, ...] = ()
    watts: float = 0.0
    ready_s: float = 0.0
    detail: str = ""

    @property
    def gpus(self) -> int:
        """Devices that are attached."""
        return sum(part.count for part in self.parts)

    @property
    def key(self) -> tuple[int, float, float]:
        """Cheapest first: fewest devices, then least power, then fastest."""
        return self.gpus, self.watts, self.ready_s

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the devices, each once."""
        return tuple(dict.fromkeys([part.device_model for part in self.parts]))


@dataclass(frozen=True, slots=True)
class Lack:
    """Why there is no option. code: in a fixed vocabulary; reason: with numbers."""

    code: str
    reason: str
    alternatives: tuple[Alternative, ...] = field(default=())
