"""Report on fabrics by metrics and a few log lines, from what a leading composer folds. No line per call.

Facts are counted as they are folded, so only those of its own term; gauges show the core's state.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from muster.bus.tracing import about
from muster.composer import fabric_metrics
from muster.composer.core.core import ComposerCore
from muster.composer.core.fold_devices import STOOD_BEFORE
from muster.composer.core.records import Attachment, Kind
from muster.core import NS_PER_S, Fact, Instant, after, seconds_between
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.composability import RequestAccepted, RequestEnded
from muster.schemas.facts.device import (
    AttachmentFailed,
    DetachGivenUp,
    DeviceAttached,
    DeviceDetached,
    DeviceOnline,
)
from muster.schemas.facts.fabric import BreakerOpened, OrphanFound

SILENT_S = 15.0
"""Time after the start of a term before an unanswering fabric is logged: managers start, too."""

_logger = logging.getLogger(__name__)
_CHANGES = ("attachment", "composability", "fabric")


@dataclass(slots=True)
class _Counted:
    """An attachment, also after the core dropped it, and the phase in which it is counted."""

    attachment: Attachment
    phase: AttachmentPhase | None = None


class FabricWatch:
    """Metrics and log lines of one term. `core` is recovered to the log's head."""

    def __init__(
        self,
        core: ComposerCore,
        models: Mapping[str, Sequence[Kind]],
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._monotonic_s = monotonic_s
        self._gauges = fabric_metrics.FabricGauges(models)
        self._known: dict[str, _Counted] = {}
        self._counts: Counter[tuple[str, AttachmentPhase]] = Counter()
        self._began_at: Instant | None = None
        self._clock = Instant(0), 0.0
        self._silent: set[str] = set()
        for name, attachment in core.state.attachments.items():
            if not attachment.phase.is_over:
                self._count(name)
        self._show_pools()

    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:
        """Handle folded facts, or the passing of time."""
        self._clock = now, self._monotonic_s()
        if self._began_at is None:
            self._began_at = now
            for config in self._core.state.config.fabrics:
                self._gauges.survey_age(config.name, self._age_of(config.name, now))
        changes = [fact for fact in facts if fact.kind in _CHANGES]
        if changes:
            self._tell(changes)
            self._show_pools()
        for config in self._core.state.config.fabrics:
            self._show(config.name, now)

    def close(self) -> None:
        """Hide the metrics at the end of the term."""
        self._gauges.hide()

    # --- what happened -------------------------------------------------------------------------------------------

    def _tell(self, facts: Sequence[Fact]) -> None:
        orphans, failed = dict[str, list[OrphanFound]](), dict[str, list[tuple[Attachment, str]]]()
        for fact in facts:
            if fact.kind == "attachment":
                self._count(fact.subject_id)
                known = self._known.get(fact.subject_id)
                if known is not None and (why := _attachment(known.attachment, fact)):
                    failed.setdefault(known.attachment.fabric, []).append((known.attachment, why))
            elif fact.kind == "composability":
                self._request(fact)
            elif isinstance(fact.payload, OrphanFound):
                orphans.setdefault(fact.subject_id, []).append(fact.payload)
            else:
                _breaker(fact)
        self._forget(facts)
        for fabric, found in orphans.items():
            self._tell_orphans(fabric, found)
        for fabric, over in failed.items():
            _tell_failed(fabric, over)

    def _request(self, fact: Fact) -> None:
        match fact.payload:
            case RequestAccepted(orders=orders):
                fabric_metrics.request("accepted")
                for order in orders:
                    self._count(order.id)
            case RequestEnded(failed=is_failed):
                fabric_metrics.request("failed" if is_failed else "ended")
            case _ if fact.name == "refused":
                fabric_metrics.request("refused")

    # --- what is so ----------------------------------------------------------------------------------------------

    def _count(self, name: str) -> None:
        """Count an attachment in its current phase."""
        known = self._known.get(name)
        if known is None:
            attachment = self._core.state.attachments.get(name)
            if attachment is None:
                return
            known = self._known[name] = _Counted(attachment)
        phase, fabric = known.attachment.phase, known.attachment.fabric
        if phase is known.phase:
            return
        for moved, by in ((known.phase, -1), (phase, 1)):
            if moved is not None and not moved.is_over:
                self._counts[fabric, moved] += by
                self._gauges.attachments(fabric, moved, self._counts[fabric, moved])
        known.phase = phase

    def _forget(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            known = self._known.get(fact.subject_id) if fact.kind == "attachment" else None
            if known is not None and known.attachment.phase.is_over:
                del self._known[fact.subject_id]

    def _show(self, name: str, now: Instant) -> None:
        state, record, look = self._core.state, self._core.state.fabrics[name], self._core.surveys.at(name)
        self._gauges.fabric(
            name,
            breaker=record.breaker_at(now),
            unsettled=state.attachments.in_flight(name, now),
            orphans=len(record.orphans),
        )
        if look.began_at and name in self._silent:
            self._silent.discard(name)
            _logger.info("fabric %s answers", name)
        elif not look.began_at and name not in self._silent and self._is_late(now):
            self._silent.add(name)
            _logger.warning(
                "fabric %s has not answered since the term began: %s", name, look.error or record.error or "-"
            )

    def _show_pools(self) -> None:
        for config in self._core.state.config.fabrics:
            self._gauges.pool(config.name, self._core.state.fabrics[config.name].pool)

    def _is_late(self, now: Instant) -> bool:
        return self._began_at is not None and now >= after(self._began_at, SILENT_S)

    def _age_of(self, fabric: str, began_at: Instant) -> Callable[[], float]:
        def age_s() -> float:
            """Return the age; called by the thread of the metrics page, so it reads only single values."""
            look, (now, seen_s) = self._core.surveys.of.get(fabric), self._clock
            looked_at = look.began_at if look is not None and look.began_at else began_at
            return max(0.0, seconds_between(looked_at, now) + self._monotonic_s() - seen_s)

        return age_s

    # --- lines ---------------------------------------------------------------------------------------------------

    def _tell_orphans(self, fabric: str, found: Sequence[OrphanFound]) -> None:
        first, orphan_s = found[0], self._core.state.bounds.orphan_s
        _logger.warning(
            "fabric %s: %d device(s) on our machines without a request, the first %s (%s) on %s; returned after %g s",
            fabric, len(found), first.device_uuid or first.device_id, first.model, first.machine, orphan_s,
        )  # fmt: skip


def _attachment(one: Attachment, fact: Fact) -> str:
    """Count one fact. Return why the attachment failed for good, if it did and was still wanted."""
    match fact.payload:
        case DeviceAttached(adopted=True):
            fabric_metrics.adopted(one.fabric)
        case DeviceOnline(took_s=took_s) if not one.withholds and one.requested.origin not in STOOD_BEFORE:
            fabric_metrics.attached(one.fabric, took_s, trace=fact.trace)
        case DeviceDetached() if one.wanted_at:
            took_s = max(0.0, seconds_between(one.wanted_at, fact.time))
            fabric_metrics.detached(one.fabric, took_s, trace=fact.trace)
        case DetachGivenUp():
            fabric_metrics.given_up(one.fabric)
        case AttachmentFailed(failure=failure, reason=reason) if one.wish is None:
            fabric_metrics.failed(one.fabric, failure)
            return reason or "no reason was given"
    return ""


def _tell_failed(fabric: str, over: Sequence[tuple[Attachment, str]]) -> None:
    one, why = over[0]
    _logger.warning(
        "fabric %s: %d attachment(s) failed for good, the first %s (%s for %s): %s",
        fabric, len(over), one.id, one.requested.model, one.requested.node, why, extra=about(one.trace),
    )  # fmt: skip


def _breaker(fact: Fact) -> None:
    if isinstance(fact.payload, BreakerOpened):
        opened = fact.payload
        until = datetime.fromtimestamp(opened.retry_at / NS_PER_S, UTC).isoformat(timespec="seconds")
        _logger.warning(
            "fabric %s gets no calls until %s: %d failure(s) in a row, the last %s: %s",
            fact.subject_id, until, opened.failures, opened.failure.value, opened.error,
        )  # fmt: skip
    elif fact.name == "breaker-closed":
        _logger.info("fabric %s answers again", fact.subject_id)
