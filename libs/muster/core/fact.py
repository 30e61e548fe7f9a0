"""A service is a fold over the log plus a decision function; these are its words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from muster.core.instant import Instant
from muster.schemas.record import FactBody


@dataclass(frozen=True, slots=True)
class Fact:
    """One message of a log, as folded. `seq` alone is the order; `time`, the broker's, is the only time a fold may use.

    cluster: whom it is about ("" for a federation fact addressed to nobody). trace: W3C traceparent, "" if none.
    """

    id: str
    seq: int
    time: Instant
    cluster: str
    writer: str
    kind: str
    subject_id: str
    name: str
    causes: tuple[str, ...]
    trace: str
    payload: FactBody


@dataclass(frozen=True, slots=True)
class Draft:
    """What should be true and is not yet: a fact that a core wants in the log. The shell gives it an id, the broker
    a sequence and a time.

    causes: ids of the facts that led to it. trace: traceparent of the job that it is about, "" for the causes' own.
    together: drafts of one decision with the same non-empty key are never split over two batches.
    cluster: federation facts only: whom it is addressed to.
    """

    kind: str
    subject_id: str
    name: str
    payload: FactBody
    causes: tuple[str, ...] = ()
    trace: str = ""
    together: str = ""
    cluster: str = ""


ObservedT_contra = TypeVar("ObservedT_contra", contravariant=True)


class Core(Protocol):
    """The pure part of a service: no I/O, no clock, no randomness, no threads.

    `decide` may be called any number of times between folds and must not change what the core believes: a core learns
    of its own decisions by folding them. What one call leaves out for want of time, the next one returns.
    """

    def apply(self, fact: Fact) -> None:
        """Fold one fact, in log order. What fits no state is counted, never raised: so every replica folds alike."""
        ...

    def decide(self, now: Instant) -> list[Draft]:
        """What should be true at `now` and is not yet. Work grows with what changed, not with what exists."""
        ...

    def next_wakeup(self) -> Instant | None:
        """When `decide` could answer differently by time alone; None if never."""
        ...

    def snapshot(self) -> Iterator[Draft]:
        """State facts for what this service is the writer of; folding them into a new core gives an equal state."""
        ...


class ObservingCore(Core, Protocol[ObservedT_contra]):
    """A core that also judges by what is seen outside the log: readings of devices, looks at fabrics and API servers.

    `observe` is the only way in. What comes in is never part of what the core believes: `snapshot`, and every answer
    that follows from facts alone, are the same before and after. What is kept of it is bounded, and another instance
    sees anew. Facts that are decided because of it carry what was seen (decision 55).
    """

    def observe(self, observation: ObservedT_contra, now: Instant) -> bool:
        """Take in what was seen until `now`. Return whether there may be something new to decide."""
        ...
