"""A cluster's contact with the federation, folded alike by every service that acts on it.

A job that may be given to another cluster runs only while the federation was recently known to be alive: until
`lost_after_s`, less the margin, after the cluster *wrote* the newest summary that `contact-renewed` answers. Both times
are stamped by the cluster's own broker, so neither the delay of the answer nor another clock matters.
"""

from muster.core.instant import Instant, after
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import CONTACTS_MAX, ContactLost, ContactRenewed, ContactState, Heartbeat


class Contact:
    """The state of contact. While `is_lost`, jobs that may be given to other clusters are not started."""

    __slots__ = ("_unanswered", "is_lost", "is_wanted", "last", "lost_after_s", "margin_s", "number", "until")

    def __init__(self) -> None:
        self.number = self.until = self.last = 0
        """The newest answered summary, until when jobs may run (0: never yet), and the newest written summary."""
        self.lost_after_s = self.margin_s = 0.0
        self.is_lost = True
        self.is_wanted = False
        """Whether jobs came that may be given to other clusters, or the federation answered; else no heartbeat
        is sent."""
        self._unanswered: dict[int, int] = {}

    def summarised(self, summary: ClusterSummary, *, at: int) -> None:
        """Record a written summary; beyond the limit the oldest unanswered one is forgotten."""
        if not summary.number:
            return
        self.is_wanted, self.last = True, max(self.last, summary.number)
        self._unanswered[summary.number] = at
        if len(self._unanswered) > CONTACTS_MAX:
            del self._unanswered[next(iter(self._unanswered))]

    def renewed(self, answer: ContactRenewed, *, at: int) -> bool:
        """Record an answer of the federation, and return whether jobs may be started again."""
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
        """Record the agent's report that contact is lost, and return whether it is new."""
        if self.is_lost:
            return False
        self.is_lost = True
        return True

    def is_over(self, now: int) -> bool:
        """Return whether the time is over and the loss was not reported yet."""
        return not self.is_lost and now >= self.until

    def ends_at(self) -> Instant | None:
        """Return when contact is lost without a further answer; None if it is lost already."""
        return None if self.is_lost else Instant(self.until)

    def stored(self) -> ContactState | None:
        """Return the state for a checkpoint; None if contact was never needed."""
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
        """Load the state of a checkpoint."""
        if state is None:
            return
        self.is_wanted, self.is_lost, self.last = True, state.lost, state.last
        self.number, self.until = state.number, state.until
        self.lost_after_s, self.margin_s = state.lost_after_s, state.margin_s
        self._unanswered = {one.number: one.at for one in state.unanswered}
