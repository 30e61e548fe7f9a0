"""When a leader may append, and what follows from an append that was not stored."""

import logging
from collections import deque
from collections.abc import Sequence

from muster.bus.clock import Clock
from muster.bus.fold import Folder
from muster.bus.limits import ShellLimits
from muster.bus.metrics import ShellMetrics
from muster.bus.ports import (
    Appended,
    DraftsRefusedError,
    LogAppender,
    LogError,
    LogFullError,
    LogReader,
    Refusal,
    Refused,
    StaleFenceError,
)
from muster.bus.quarantine import Admitted, Narrowing, Quarantine
from muster.core.fact import Draft
from muster.core.instant import Instant

_logger = logging.getLogger(__name__)


class LeaderPublisher:
    """Appends for one leader. After a commit it rests until that is folded; after a failure until the head is, and
    longer each time, up to a bound. wanted: something was folded, or not stored, since the last decision.

    A refusal that is about single drafts keeps only these from the log; see `quarantine`.
    """

    def __init__(self, appender: LogAppender, clock: Clock, metrics: ShellMetrics, limits: ShellLimits) -> None:
        self.term = 0
        self.wanted = True
        self.asks_head = False
        self._appender = appender
        self._clock = clock
        self._metrics = metrics
        self._limits = limits
        self._fold_first_seq = 0
        self._rest_until_s = 0.0
        self._backoff_s = 0.0
        self._stale = 0
        self._appended_s = clock.monotonic_s()
        self._probe: tuple[int, Instant, Instant] | None = None
        self._quarantine = Quarantine(
            most=limits.quarantine_max, wait_s=limits.quarantine_wait_s, pace_s=limits.quarantine_pace_s
        )
        self._narrowing = Narrowing()
        self._letters: deque[tuple[Draft, str]] = deque(maxlen=limits.quarantine_max)

    async def start_term(self, *, term: int, holder: str) -> Appended:
        """Append `term-started`. Raises LogError."""
        appended = await self._appender.start_term(term=term, holder=holder)
        self.term = term
        self._stored(appended)
        return appended

    async def append(self, drafts: Sequence[Draft], *, folded_seq: int) -> str:
        """Append the drafts that are not held back; "" if they were stored, else why not: fold to the head and
        redecide."""
        started_s, sent = self._clock.monotonic_s(), self._clock.wall()
        admitted = self._quarantine.admit(drafts, now_s=started_s)
        sending = admitted.drafts if admitted.tried else self._narrowing.next(admitted.drafts)
        if not sending and not self._narrowing.is_control and not self.renewal_due():
            self._rest_until_s = started_s + self._limits.quarantine_rest_s
            await self._report()
            return ""
        try:
            appended = await self._appender.append(sending, folded_seq=folded_seq)
        except DraftsRefusedError as error:
            self._hold([(sending[one.index], one) for one in error.refused])
            await self._report()
            self.wanted = self.asks_head = True
            return str(error)
        except LogError as error:
            self._unexplained(error, admitted)
            return self._failed(error)
        self._metrics.append_s.observe(self._clock.monotonic_s() - started_s)
        self._metrics.appended.inc(len(sending))
        self._probe = (appended.first_seq, sent, self._clock.wall())
        self._stored(appended)
        self._explained(admitted, is_whole=len(sending) == len(drafts))
        await self._report()
        return ""

    def folded(self, state: Folder) -> None:
        """Observe a fold: the time stamp of an own commit shows the difference of the clocks."""
        if self._probe is None or state.last_seq < self._probe[0]:
            return
        seq, sent, answered = self._probe
        self._probe = None
        if state.fence_seq == seq:
            self._clock.saw_append(sent=sent, answered=answered, stamped=state.fence_time)
            self._metrics.skew_s.set(self._clock.skew_s)

    async def ask_head(self, reader: LogReader) -> None:
        """After a failure: learn up to where to fold before anything is decided again."""
        if self._clock.monotonic_s() < self._rest_until_s:
            return
        try:
            self._fold_first_seq = max(self._fold_first_seq, await reader.head())
        except LogError as error:
            _logger.warning("the head of the log is not known yet: %s", error)
            self.put_off()
            return
        self.asks_head = False

    def may_append(self, *, folded_seq: int) -> bool:
        """Return whether to decide now."""
        if self.asks_head or folded_seq < self._fold_first_seq:
            return False
        return self._clock.monotonic_s() >= self._rest_until_s

    @property
    def is_lost(self) -> bool:
        """Return whether the broker refuses this term forever, without a later term: its fence was purged."""
        return self._stale >= self._limits.stale_appends_max

    def renewal_due(self) -> bool:
        """Return whether an idle leader must renew its fence, so that a trim never removes a live one."""
        return self._clock.monotonic_s() - self._appended_s >= self._limits.fence_renewal_s

    def retry_due(self) -> bool:
        """Return whether a quarantined draft may be tried again."""
        return self._quarantine.is_due(self._clock.monotonic_s())

    def wait_s(self, wake_in_s: float, *, folded_seq: int) -> float:
        """Return how long the next read may wait for facts."""
        rest_s = self._rest_until_s - self._clock.monotonic_s()
        if rest_s > 0:
            return min(rest_s, self._limits.idle_s)
        if folded_seq < self._fold_first_seq:
            return self._limits.idle_s
        return 0.0 if self.wanted else wake_in_s

    def put_off(self) -> float:
        """Wait longer before the next try; how long, in seconds."""
        first_s, longest_s = self._limits.backoff_s
        self._backoff_s = min(longest_s, max(first_s, 2 * self._backoff_s))
        self._rest_until_s = self._clock.monotonic_s() + self._backoff_s
        self._metrics.backoff_s.set(self._backoff_s)
        return self._backoff_s

    def _failed(self, error: LogError) -> str:
        stale = isinstance(error, StaleFenceError)
        self._metrics.refused(stale=stale, full=isinstance(error, LogFullError))
        _logger.warning("append not stored: %s", error)
        self.wanted = self.asks_head = True
        if not stale or self._stale:  # one that stays stale after the head was folded is not cured by haste
            self.put_off()
        self._stale = self._stale + 1 if stale else 0
        return str(error)

    def _hold(self, refused: Sequence[tuple[Draft, Refused]]) -> None:
        """Hold these drafts back from now on."""
        now_s = self._clock.monotonic_s()
        for draft, why in refused:
            if not self._quarantine.refuse(draft, why.reason, now_s=now_s):
                continue
            self._metrics.quarantined(kind=draft.kind, name=draft.name, reason=why.reason.value)
            self._letters.append((draft, why.detail))
            _logger.error("%s of %s %s is held back: %s", draft.name, draft.kind, draft.subject_id, why.detail)
        self._stale = 0
        if len(self._quarantine) >= self._limits.quarantine_max:  # more are refused than can be held back
            self.put_off()

    def _unexplained(self, error: LogError, admitted: Admitted) -> None:
        """Handle a failed append whose error names no draft."""
        if isinstance(error, StaleFenceError | LogFullError):
            return
        if admitted.tried:
            self._quarantine.refuse_again(admitted.tried, now_s=self._clock.monotonic_s())
        else:
            self._narrowing.failed()

    def _explained(self, admitted: Admitted, *, is_whole: bool) -> None:
        """Update the quarantine after a stored append: it shows which held or suspected drafts the log accepts."""
        if admitted.tried:
            self._quarantine.stored(admitted.tried, now_s=self._clock.monotonic_s())
        else:
            detail = "an append fails with it and is stored without it"
            self._hold([(draft, Refused(0, Refusal.BROKER, detail)) for draft in self._narrowing.stored()])
        if not is_whole:
            self.wanted = True

    async def _report(self) -> None:
        """Write dead letters of what is held back: a few at a time, so that nothing waits long for them."""
        self._metrics.in_quarantine.set(len(self._quarantine))
        for _ in range(min(len(self._letters), self._limits.letters_max)):
            draft, detail = self._letters[0]
            try:
                await self._appender.report_refused(draft, detail)
            except LogError as error:
                _logger.warning("no dead letter of %s %s yet: %s", draft.kind, draft.subject_id, error)
                return
            self._letters.popleft()

    def _stored(self, appended: Appended) -> None:
        self._fold_first_seq = max(self._fold_first_seq, appended.last_seq)
        self._appended_s = self._clock.monotonic_s()
        self._rest_until_s = 0.0
        self._stale = 0
        if self._backoff_s:
            self._backoff_s = 0.0
            self._metrics.backoff_s.set(0)


class SilentPublisher(LeaderPublisher):
    """Publisher of a leader that follows the copy of a log: it serves by its lease only, and writes nothing.

    A term fences appends; without appends no term is needed, and the link to the log itself may be cut.
    """

    async def start_term(self, *, term: int, holder: str) -> Appended:  # noqa: ARG002 - the publisher's signature
        """Return at once: there is nothing to append and nothing to wait for."""
        self.wanted = False
        return Appended(0, 0)

    def folded(self, state: Folder) -> None:
        """Ignore the terms in the log: they belong to the service at the original log."""
        self.term = state.term

    def may_append(self, *, folded_seq: int) -> bool:  # noqa: ARG002 - the publisher's signature
        """Return False: a follower of a copy never appends."""
        return False

    def renewal_due(self) -> bool:
        """Return False: there is no fence to renew."""
        return False

    def wait_s(self, wake_in_s: float, *, folded_seq: int) -> float:  # noqa: ARG002 - the publisher's signature
        """Return how long the core can wait for facts."""
        return wake_in_s
