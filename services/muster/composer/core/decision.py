"""One decision in progress: its facts so far, and what they take from the rest."""

from collections import Counter
from dataclasses import dataclass, field

from muster.composer.core.limits import DRAFTS_MAX
from muster.composer.core.records import Attachment, Kind
from muster.core import Draft, Instant
from muster.schemas.base import CAUSES_MAX, Payload


@dataclass(slots=True)
class Tally:
    """Devices of the requests accepted in this decision: pools by fabric and kind, kinds by node.

    `held_by` has requests by their `rival_keys`.
    """

    pools: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    nodes: dict[str, list[Kind]] = field(default_factory=dict)
    held_by: dict[tuple[str, ...], str] = field(default_factory=dict)

    def copy(self) -> "Tally":
        """Return a copy for a request that may still be refused."""
        return Tally(self.pools.copy(), {node: list(kinds) for node, kinds in self.nodes.items()}, dict(self.held_by))


@dataclass(slots=True)
class Decision:
    """A decision at `now`. `moved`: attachments with a new fact; `claimed`: devices given away.

    `stopped`: requests without further calls; `opened`: fabrics whose breaker opens.
    """

    now: Instant
    drafts: list[Draft] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    claimed: set[tuple[str, str]] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    @property
    def is_full(self) -> bool:
        """Return whether the rest is left to the next decision."""
        return len(self.drafts) >= DRAFTS_MAX

    def say(self, attachment: Attachment, name: str, payload: Payload, *causes: str, together: str = "") -> None:
        """Add a fact of an attachment, with its newest fact among the causes."""
        self.moved.add(attachment.id)
        led = causes_of(*causes, attachment.last_fact)
        self.drafts.append(Draft("attachment", attachment.id, name, payload, led, attachment.trace, together))


def causes_of(*facts: str) -> tuple[str, ...]:
    """Return each known cause once."""
    return tuple(dict.fromkeys(fact for fact in facts if fact))[:CAUSES_MAX]
