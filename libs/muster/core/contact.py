"""What a cluster knows of its contact with the federation, folded alike by all who act on it.

A job that may be given to another cluster runs only while the federation is known to have been alive lately: until
`lost_after_s` less the margin after the cluster *wrote* the newest summary that `contact-renewed` answers. Both moments
are stamped by the cluster's own broker, so nothing hangs on when the answer comes, or on anybody else's clock.
"""

from muster.core.instant import Instant, after
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import CONTACTS_MAX, ContactLost, ContactRenewed, ContactState, Heartbeat


class Contact:
    """until: its jobs may run until then, 0: never yet. is_lost: nothing of that sort is started, until it is renewed.

    is_wanted: jobs came that may be given to others, or the federation answers; else nothing is ever asked.
    number: of the newest summary that was answered. margin_s: as answered last.
    """

    __slots__ = ("_unanswered", "is_lost", "is_wanted", "last", "lost_after_s", "margin_s", "number", "until")

    def __init__(self) -> None:
        self.number = self.until = self.last = 0
        self.lost_after_s = self.margin_s = 0.0
        self.is_lost = True
        self.is_wanted = False
        self._unanswered: dict[int, int] = {}

    def summarised(self, summary: ClusterSummary, *, at: int) -> None:
        """A summary was written. The oldest that is not answered is forgotten when there are too many."""
        if not summary.number:
            return
        self.is_wanted, self.last = True, max(self.last, summary.number)
        self._unanswered[summary.number] = at
        if len(self._unanswered) > CONTACTS_MAX:
            del self._unanswered[next(iter(self._unanswered))]

    def renewed(self, answer: ContactRenewed, *, at: int) -> bool:
        """The federation answered. True if jobs may be started again that were not; the moment alone may be over."""
        self.is_wanted = True
        written_at = self._unanswered.get(answer.number)
        self._unanswered = {number: then for number, then in self._unanswered.items() if number > answer.number}
        if written_at is None or answer.number <= self.number:
            return False
        self.number, self.lost_after_s, self.margin_s = answer.number, answer.lost_after_s, answer.margin_s
        self.until = max(self.until, after(Instant(written_at), answer.lost_after_s - answer.margin_s))
        if not self.is_lost or self.until <= at:
            return False
        self.is_lost = False
        return True

    def lost(self, _told: ContactLost) -> bool:
        """The agent said that the time is over. False if that was said already."""
        if self.is_lost:
            return False
        self.is_lost = True
        return True

    def is_over(self, now: int) -> bool:
        """Whether the time is over and nobody has said so."""
        return not self.is_lost and now >= self.until

    def ends_at(self) -> Instant | None:
        """When the time is over, if nothing is heard; None if it is, or was never asked for."""
        return None if self.is_lost else Instant(self.until)

    def stored(self) -> ContactState | None:
        """For a checkpoint; None where contact was never asked for."""
        if not self.is_wanted:
            return None
        return ContactState(
            number=self.number,
            until=self.until,
            unanswered=tuple(Heartbeat(number=number, at=at) for number, at in self._unanswered.items()),
            lost=self.is_lost,
            lost_after_s=self.lost_after_s,
            margin_s=self.margin_s,
            last=self.last,
        )

    def restore(self, state: ContactState | None) -> None:
        """Take over what a checkpoint says."""
        if state is None:
            return
        self.is_wanted, self.is_lost, self.last = True, state.lost, state.last
        self.number, self.until = state.number, state.until
        self.lost_after_s, self.margin_s = state.lost_after_s, state.margin_s
        self._unanswered = {one.number: one.at for one in state.unanswered}
