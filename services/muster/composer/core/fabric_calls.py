"""Calls to fabrics: when they begin, their outcomes, retries, and the circuit breaker.

Calls begin up to the limit of a fabric. Detachments go first, because attachments may wait for their devices. A fabric
that fails too often in a row is left alone for a while, then tried with one call.
"""

from dataclasses import dataclass

from muster.composer.core.config import ComposerConfig, FabricConfig
from muster.composer.core.decision import Decision, causes_of
from muster.composer.core.fabrics import AttachDone, CallWentWrong, DetachDone, Fabrics, Outcome
from muster.composer.core.limits import BREAKER_S_MAX, ERROR_CHARS_MAX, SKEW_S, START_S
from muster.composer.core.records import UNKNOWN_EFFECT, Attachment, Fabric, FabricRecords
from muster.composer.core.state import Attachments
from muster.composer.core.surveys import Surveys
from muster.composer.core.worklist import Worklist
from muster.core import NEVER, Draft, Instant, after, seconds_between
from muster.core.seeded import uniform
from muster.fabric.checked import check_device
from muster.fabric.driver import FabricNonsenseError, MachineDevice
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.device import (
    CallFailed,
    CallFailure,
    CallStarted,
    DeviceAttached,
    DeviceDetached,
)
from muster.schemas.facts.fabric import BreakerClosed, BreakerOpened


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FabricCalls:
    """Begins calls and reports their outcomes; opens and closes the breakers of fabrics."""

    config: ComposerConfig
    attachments: Attachments
    fabrics: FabricRecords
    calls: Fabrics
    """The port to the fabrics."""
    worklist: Worklist
    surveys: Surveys

    def is_under_way(self, attachment: Attachment) -> bool:
        """Return whether this process has a call of the attachment in progress."""
        return self.calls.is_under_way(attachment.id, attachment.attempt)

    def settle(self, seen: Outcome, decision: Decision) -> None:
        """Report the outcome of a call, unless the call is settled already."""
        attachment = self.attachments.get(seen.order)
        if attachment is None or attachment.attempt != seen.attempt or not attachment.is_calling:
            self.calls.acknowledge(seen.order, seen.attempt)
        elif not decision.is_full:
            self._tell(attachment, seen, decision)

    def _tell(self, attachment: Attachment, seen: Outcome, decision: Decision) -> None:
        match seen:
            case AttachDone():
                try:
                    device = self._new_one(attachment, seen, decision)
                except FabricNonsenseError as error:
                    self.fail(attachment, error.failure, str(error), decision)
                    return
                if device is None:
                    self.fail(
                        attachment, CallFailure.ABANDONED, "every device that was named has another owner", decision
                    )
                    return
                attach(attachment, device, decision, took_s=seen.took_s)
            case DetachDone():
                self.detach(attachment, decision, was_gone=seen.was_gone, took_s=seen.took_s)
            case CallWentWrong():
                self.fail(attachment, seen.failure, seen.error, decision)

    def detach(self, attachment: Attachment, decision: Decision, *, was_gone: bool, took_s: float = 0.0) -> None:
        """Record that the device is in the pool again."""
        payload = DeviceDetached(
            device_uuid=attachment.device_uuid,
            device_id=attachment.device_id,
            node=self.attachments.hosts.node_of(attachment),
            type=attachment.requested.type,
            memory_mib=attachment.memory_mib,
            was_gone=was_gone,
            took_s=took_s,
        )
        decision.say(attachment, "detached", payload)

    def fail(self, attachment: Attachment, failure: CallFailure, error: str, decision: Decision) -> None:
        """Record a failed call."""
        name = "attach-failed" if attachment.phase is AttachmentPhase.ATTACHING else "detach-failed"
        retry_at = self._retry_at(attachment, failure, decision.now)
        payload = CallFailed(
            attempt=attachment.attempt, failure=failure, error=error[:ERROR_CHARS_MAX], retry_at=retry_at
        )
        decision.say(attachment, name, payload)

    def _retry_at(self, attachment: Attachment, failure: CallFailure, now: Instant) -> Instant:
        """Return when to retry: the backoff doubles each time, drawn from its upper half. NEVER: that was the last."""
        bounds, attempt = self.config.bounds, attachment.calls
        is_attaching = attachment.phase is AttachmentPhase.ATTACHING
        if failure is CallFailure.REFUSED or attempt >= bounds.attempts_max or (is_attaching and attachment.wish):
            return NEVER
        backoff_s = min(bounds.backoff_s_max, bounds.backoff_s * 2 ** (attempt - 1))
        retry_at = after(now, backoff_s * (0.5 + 0.5 * uniform(0, attachment.id, attachment.attempt)))
        if failure in UNKNOWN_EFFECT:
            retry_at = max(retry_at, after(attachment.deadline_at, SKEW_S))
        return NEVER if retry_at > attachment.overdue_at(bounds) else retry_at

    def _new_one(self, attachment: Attachment, done: AttachDone, decision: Decision) -> MachineDevice | None:
        """Return the first device without an attachment; devices detached since the intent may come from before it.

        Raises FabricNonsenseError for a device that no fact could hold.
        """
        for device in done.candidates:
            check_device(device, what=f"machine {attachment.machine}")
            key = attachment.fabric, device.device_id
            if (
                (device.type, device.model) != attachment.kind
                or key in self.attachments.by_device
                or key in decision.claimed
            ):
                continue
            if self.fabrics[attachment.fabric].away_at(device.device_id) <= attachment.since:
                return device
        return None

    # --- which begin -----------------------------------------------------------------------------------------

    def breakers(self, decision: Decision) -> None:
        """Open and close breakers."""
        for config in self.config.fabrics:
            fabric, look = self.fabrics[config.name], self.surveys.at(config.name)
            if not fabric.retry_at:
                failures = fabric.failures + look.failures
                if failures >= self.config.bounds.breaker_failures:
                    self._open(fabric, failures, decision)
            elif fabric.is_probing(decision.now):
                if fabric.succeeded_at > fabric.opened_at or (
                    not self._has_work(config.name) and look.began_at >= fabric.retry_at
                ):
                    causes = causes_of(fabric.last_fact)
                    decision.drafts.append(Draft("fabric", fabric.name, "breaker-closed", BreakerClosed(), causes))
                    look.failures = 0
                elif fabric.failures or look.failed_at >= fabric.retry_at:
                    self._open(fabric, max(1, fabric.failures), decision)

    def _has_work(self, fabric: str) -> bool:
        worklist = self.worklist
        return bool(self.attachments.calling(fabric) or worklist.attach.get(fabric) or worklist.detach.get(fabric))

    def _open(self, fabric: Fabric, failures: int, decision: Decision) -> None:
        look, open_s = self.surveys.at(fabric.name), self.config.bounds.breaker_s
        if fabric.retry_at:  # the trial failed: report a lasting failure ever more rarely
            open_s = max(open_s, min(BREAKER_S_MAX, 2 * seconds_between(fabric.opened_at, fabric.retry_at)))
        payload = BreakerOpened(
            failures=failures,
            failure=look.failure or fabric.failure or CallFailure.UNAVAILABLE,
            error=(look.error or fabric.error)[:ERROR_CHARS_MAX],
            retry_at=after(decision.now, open_s),
        )
        decision.opened.add(fabric.name)
        decision.drafts.append(Draft("fabric", fabric.name, "breaker-opened", payload, causes_of(fabric.last_fact)))

    def dispatch(self, decision: Decision) -> None:
        """Add the intents for which there is room."""
        for config in self.config.fabrics:
            attach, detach = self.worklist.attach.get(config.name), self.worklist.detach.get(config.name)
            if attach or detach:
                self._begin(config, tuple(detach or ()) + tuple(attach or ()), decision)

    def _begin(self, config: FabricConfig, waiting: tuple[str, ...], decision: Decision) -> None:
        fabric = self.fabrics[config.name]
        if fabric.is_open(decision.now) or config.name in decision.opened:
            return
        room = config.limit - self.attachments.in_flight(config.name, decision.now)
        if fabric.is_probing(decision.now):
            room = min(1, room) if room == config.limit else 0
        for name in waiting:
            if room <= 0 or decision.is_full:
                return
            attachment = self.attachments[name]
            if name not in decision.moved and (
                attachment.has_device or attachment.requested.request not in decision.stopped
            ):
                _call(attachment, config, decision)
                room -= 1


def attach(
    attachment: Attachment, device: MachineDevice, decision: Decision, *, took_s: float = 0.0, adopted: bool = False
) -> None:
    """Give the device to the attachment."""
    decision.claimed.add((attachment.fabric, device.device_id))
    payload = DeviceAttached(
        device_uuid=device.device_uuid or device.device_id,
        device_id=device.device_id,
        node=attachment.requested.node,
        machine=attachment.machine,
        type=attachment.requested.type,
        model=attachment.requested.model,
        memory_mib=device.memory_mib,
        adopted=adopted,
        took_s=took_s,
    )
    decision.say(attachment, "attached", payload)


def _call(attachment: Attachment, config: FabricConfig, decision: Decision) -> None:
    """Add the intent. Its deadline leaves the call its whole time, even if it begins as late as allowed."""
    deadline_at = after(decision.now, START_S + config.call_s)
    attempt = attachment.attempt + 1
    if attachment.is_coming:
        decision.say(attachment, "attaching", CallStarted(attempt=attempt, deadline_at=deadline_at))
        return
    holders = attachment.holders if attachment.force else ()
    payload = CallStarted(
        attempt=attempt,
        deadline_at=deadline_at,
        device_id=attachment.device_id,
        device_uuid=attachment.device_uuid,
        forced=bool(holders),
        holders=holders,
    )
    assert attachment.is_withheld or attachment.phase is AttachmentPhase.DETACHING
    decision.say(attachment, "detaching", payload)
