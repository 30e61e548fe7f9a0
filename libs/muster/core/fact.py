"""Facts, drafts and the interface of cores: a service is a fold over the log and a decision function."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from muster.core.instant import Instant
from muster.schemas.record import FactBody


@dataclass(frozen=True, slots=True)
class Fact:
    """One message of a log, as folded. `seq` alone is the order; `time`, the broker's, is the only time of a fold."""

    id: str
    seq: int
    time: Instant
    cluster: str
    """The cluster that it is about; "" for a federation fact without an addressee."""
    writer: str
    kind: str
    subject_id: str
    name: str
    causes: tuple[str, ...]
    trace: str
    """W3C traceparent, "" if there is none."""
    payload: FactBody


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact that a core wants in the log. The shell assigns its id, the broker its sequence and time."""

    kind: str
    subject_id: str
    name: str
    payload: FactBody
    causes: tuple[str, ...] = ()
    """Ids of the facts that led to it."""
    trace: str = ""
    """Traceparent of the job that it is about; "" for that of its causes."""
    together: str = ""
    """Drafts of one decision with the same non-empty key are never split over two batches."""
    cluster: str = ""
    """The addressed cluster of a federation fact."""


ObservedT_contra = TypeVar("ObservedT_contra", contravariant=True)


class Core(Protocol):
    """The pure part of a service: no I/O, no clock, no randomness, no threads.

    `decide` may be called any number of times between folds and must not change the core's state: a core learns of its
    own decisions by folding them. If one call leaves work out to save time, the next one returns it.
    """

    def apply(self, fact: Fact) -> None:
        """Fold one fact, in log order. A fact that fits no state is counted, never raised: all replicas agree."""
        ...

    def decide(self, now: Instant) -> list[Draft]:
        """Return the drafts that the state at `now` calls for. The work grows with the changes, not with the state."""
        ...

    def next_wakeup(self) -> Instant | None:
        """Return when `decide` could answer differently by time alone; None if never."""
        ...

    def snapshot(self) -> Iterator[Draft]:
        """Yield state facts of everything that this service writes; a new core that folds them has an equal state."""
        ...


class ObservingCore(Core, Protocol[ObservedT_contra]):
    """A core that also uses observations outside the log: readings of devices, surveys of fabrics and API servers.

    `observe` is the only input for them. Observations never change the folded state: `snapshot`, and every answer that
    follows from facts alone, are the same before and after. What is kept of them is bounded, and another instance
    observes again. Facts decided because of an observation contain it (decision 55).
    """

    def observe(self, observation: ObservedT_contra, now: Instant) -> bool:
        """Take in an observation made until `now`, and return whether there may be something new to decide."""
        ...
