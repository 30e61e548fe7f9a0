"""One decision under way: what it has said so far, and what that takes from what is left for the rest of it."""

from collections import Counter
from dataclasses import dataclass, field

from muster.composer.core.limits import DRAFTS_MAX
from muster.composer.core.records import Attachment, Kind
from muster.core import Draft, Instant
from muster.schemas.base import CAUSES_MAX, Payload


@dataclass(slots=True)
class Tally:
    """What requests accepted by this decision take. pools: by fabric and kind; nodes: kinds by node.

    held_by: requests by what no other may ask beside them.
    """

    pools: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    nodes: dict[str, list[Kind]] = field(default_factory=dict)
    held_by: dict[tuple[str, ...], str] = field(default_factory=dict)

    def copy(self) -> "Tally":
        """For what may yet be refused."""
        return Tally(self.pools.copy(), {node: list(kinds) for node, kinds in self.nodes.items()}, dict(self.held_by))


@dataclass(slots=True)
class Decision:
    """now: the decision's moment. moved: attachments that it said something of; claimed: devices that it gave away.

    stopped: requests of which no further call is begun; opened: fabrics whose breaker opens.
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
        """Whether the rest is left to the next decision."""
        return len(self.drafts) >= DRAFTS_MAX

    def say(self, attachment: Attachment, name: str, payload: Payload, *causes: str, together: str = "") -> None:
        """A fact of an attachment. causes: beside the newest fact that moved it."""
        self.moved.add(attachment.id)
        led = causes_of(*causes, attachment.last_fact)
        self.drafts.append(Draft("attachment", attachment.id, name, payload, led, attachment.trace, together))


def causes_of(*facts: str) -> tuple[str, ...]:
    """Each once, without those that are not known."""
    return tuple(dict.fromkeys(fact for fact in facts if fact))[:CAUSES_MAX]
