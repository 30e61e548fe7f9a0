"""Decide the next step of each attachment, and when to evaluate it again."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.composer.core.decision import Decision, causes_of
from muster.composer.core.fabric_calls import FabricCalls
from muster.composer.core.limits import SETTLE_S, SKEW_S, Bounds
from muster.composer.core.records import LEAVING, Attachment, Requests
from muster.composer.core.state import Attachments
from muster.composer.core.surveys import Surveys
from muster.composer.core.worklist import ATTACHMENT, Worklist
from muster.core import NEVER, Draft, Instant, after, seconds_between
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.device import (
    AttachmentFailed,
    CallFailure,
    DetachGivenUp,
    DetachWanted,
    DeviceOnline,
    DeviceVisible,
    PendingDetach,
)
from muster.schemas.facts.node import WithholdRequested, WithholdWithdrawn

Phase = AttachmentPhase
NODE, DEVICE = "node", "device"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Steps:
    """Evaluates attachments that changed or are due."""

    bounds: Bounds
    attachments: Attachments
    requests: Requests
    worklist: Worklist
    surveys: Surveys
    fabric_calls: FabricCalls

    def make(self, decision: Decision) -> None:
        """Add the next facts of all marked attachments; unmark those without any."""
        for name in tuple(self.worklist.attachments):
            attachment = self.attachments.get(name)
            if attachment is None:
                del self.worklist.attachments[name]
            elif name not in decision.moved:
                if decision.is_full:
                    return
                before = len(decision.drafts)
                self._look(attachment, decision)
                if len(decision.drafts) == before:
                    del self.worklist.attachments[name]
                    self._look_again(attachment, decision.now)

    def _look(self, attachment: Attachment, decision: Decision) -> None:
        if not attachment.said:
            decision.say(attachment, "requested", attachment.requested)
            return
        may_attach, may_detach, before = False, False, len(decision.drafts)
        match attachment.phase:
            case Phase.REQUESTED | Phase.ATTACHING if not attachment.is_calling:
                may_attach = self._coming(attachment, decision)
            case Phase.ATTACHING | Phase.DETACHING if attachment.is_calling:
                self._calling(attachment, decision)
            case Phase.ATTACHED | Phase.VISIBLE | Phase.ONLINE:
                self._standing(attachment, decision)
            case Phase.WITHHOLDING:
                may_detach = self._withholding(attachment, decision)
            case Phase.DETACHING:
                may_detach = self._detaching(attachment, decision)
            case Phase.DETACHED:
                self._owing(attachment, decision)
        has_said = len(decision.drafts) > before
        self.worklist.queue(
            attachment.id,
            attachment.fabric,
            attach=may_attach and not has_said,
            detach=may_detach and not has_said,
            unsettled=attachment.failure is not None,
        )

    # --- before it has a device ----------------------------------------------------------------------------------

    def _coming(self, attachment: Attachment, decision: Decision) -> bool:
        """Return whether a call may begin; otherwise it waits, or is over."""
        now, has_called = decision.now, attachment.failure is not None
        is_last = has_called and not attachment.retry_at
        if attachment.wish is not None:
            reason = attachment.wish.reason or "it is wanted no more"
        elif is_last:
            reason = attachment.error or "the fabric did not attach it"
        elif now >= attachment.overdue_at(self.bounds):
            reason = f"not attached within {self.bounds.attach_s_max:g} s"
            reason += f": {attachment.error}" if attachment.error else ""
        else:
            return not has_called or (now >= attachment.retry_at and self._is_settled(attachment))
        if not has_called or attachment.failure is CallFailure.REFUSED or self._is_settled(attachment, now):
            pending = attachment.wish.fact if attachment.wish is not None else ""
            decision.say(
                attachment, "failed", AttachmentFailed(failure=attachment.failure, reason=reason[:1024]), pending
            )
            request = self.requests.get(attachment.requested.request)
            if request is not None and request.all_or_nothing:
                decision.stopped.add(request.name)
        return False

    def _is_settled(self, attachment: Attachment, now: Instant = NEVER) -> bool:
        """Return whether a survey began after the failed call could take effect, or was awaited long enough."""
        look = self.surveys.at(attachment.fabric)
        if now > after(attachment.settled_at, SETTLE_S):
            return True
        return look.began_at > after(attachment.settled_at, SKEW_S if attachment.is_unsure else 0.0)

    # --- while a call is under way -------------------------------------------------------------------------------

    def _calling(self, attachment: Attachment, decision: Decision) -> None:
        is_mine = self.fabric_calls.is_under_way(attachment)
        if decision.now > after(attachment.deadline_at, SKEW_S) and not is_mine:
            self.fabric_calls.fail(attachment, CallFailure.ABANDONED, "who made the call is gone", decision)

    # --- while the device stands on its machine ------------------------------------------------------------------

    def _standing(self, attachment: Attachment, decision: Decision) -> None:
        if attachment.request_id and attachment.is_withheld:
            decision.moved.add(attachment.id)
            decision.drafts.append(self._withdrawal(attachment, "it stays", after_withheld=True))
            return
        request = self._reason_to_go(attachment, decision.now)
        if request is not None:
            if decision.now >= attachment.retry_at:
                self._ask_to_withhold(attachment, request, decision)
        elif attachment.phase is Phase.ATTACHED:
            if self.attachments.hosts.is_shown(attachment):
                decision.say(attachment, "visible", DeviceVisible())
        elif attachment.phase is Phase.VISIBLE and self.attachments.hosts.is_usable(attachment):
            took_s = seconds_between(attachment.requested_at, decision.now)
            decision.say(attachment, "online", DeviceOnline(took_s=max(0.0, took_s)))

    def _reason_to_go(self, attachment: Attachment, now: Instant) -> PendingDetach | None:
        if attachment.wish is not None:
            return attachment.wish
        look = self.surveys.at(attachment.fabric)
        if attachment.id in look.missing and look.is_after(attachment.since):
            return PendingDetach(reason="the fabric does not have it on its machine any more")
        bound_s = self.bounds.visible_s_max
        has_node = self.attachments.hosts.node_of(attachment) in self.attachments.hosts.nodes
        is_late = attachment.phase is Phase.ATTACHED and has_node and now >= after(attachment.since, bound_s)
        if is_late and not self.attachments.hosts.is_shown(attachment):
            return PendingDetach(reason=f"its node did not show it within {bound_s:g} s")
        return None

    def _ask_to_withhold(self, attachment: Attachment, request: PendingDetach, decision: Decision) -> None:
        node = self.attachments.hosts.node_of(attachment)
        of_node = not attachment.is_gpu and node in self.attachments.hosts.nodes
        request_id = f"{attachment.id}.{'n' if of_node else 'd'}{attachment.withholds + 1}"
        if attachment.phase is Phase.WITHHOLDING:  # the same request, now by force: nothing can cross it
            request_id = attachment.request_id
            of_node = is_of_node(request_id)
        reason = request.reason or "it goes back to the pool"
        wanted = DetachWanted(request_id=request_id, reason=reason, force=request.force)
        asked = WithholdRequested(request_id=request_id, reason=reason, force=request.force)
        causes, trace = causes_of(request.fact, attachment.last_fact), request.trace or attachment.trace
        decision.moved.add(attachment.id)
        kind, subject = (NODE, node) if of_node else (DEVICE, attachment.device_uuid)
        decision.drafts += [
            Draft("attachment", attachment.id, "detach-wanted", wanted, causes, trace, request_id),
            Draft(kind, subject, "withhold-requested", asked, causes, trace, request_id),
        ]

    # --- on the way back -----------------------------------------------------------------------------------------

    def _withholding(self, attachment: Attachment, decision: Decision) -> bool:
        if attachment.is_withheld:
            if decision.now >= attachment.overdue_at(self.bounds):
                self._give_up(attachment, "no call could be made in time", decision)
            return True
        if attachment.wish is not None and attachment.wish.force and not attachment.force:
            self._ask_to_withhold(attachment, attachment.wish, decision)
        elif decision.now >= after(attachment.wanted_at, attachment.withhold_s(self.bounds)):
            holders = ", ".join(self.attachments.hosts.holders(attachment)[:4])
            self._give_up(attachment, f"held by {holders}" if holders else "the scheduler did not drain it", decision)
        return False

    def _detaching(self, attachment: Attachment, decision: Decision) -> bool:
        if attachment.retry_at and decision.now < attachment.overdue_at(self.bounds):
            return decision.now >= attachment.retry_at
        is_seen, look = self._is_settled(attachment), self.surveys.at(attachment.fabric)
        if not is_seen and (attachment.failure is not CallFailure.REFUSED or attachment.calls > 1):
            return False  # a call may have detached it: jobs may use it only after a survey shows it
        if is_seen and not look.shows(attachment.machine, attachment.device_id):
            self.fabric_calls.detach(attachment, decision, was_gone=True)
        else:
            self._give_up(attachment, attachment.error or "the fabric did not take it away", decision)
        return False

    def _give_up(self, attachment: Attachment, reason: str, decision: Decision) -> None:
        request = attachment.wish.fact if attachment.wish is not None else ""
        together = attachment.request_id
        decision.say(attachment, "detach-given-up", DetachGivenUp(reason=reason[:1024]), request, together=together)
        decision.drafts.append(
            self._withdrawal(attachment, "it stays", after_withheld=attachment.is_withheld, together=together)
        )

    def _owing(self, attachment: Attachment, decision: Decision) -> None:
        """Withdraw its request to drain once its node shows that the device is gone."""
        is_late = decision.now >= after(attachment.since, self.bounds.visible_s_max)
        if self.attachments.hosts.is_shown(attachment) and not is_late:
            return
        decision.moved.add(attachment.id)
        decision.drafts.append(self._withdrawal(attachment, "it is gone", after_withheld=True))

    def _withdrawal(self, attachment: Attachment, reason: str, *, after_withheld: bool, together: str = "") -> Draft:
        """Return the withdrawal of its request to drain; the request's id says whether it was the node's."""
        of_node = is_of_node(attachment.request_id)
        kind, subject = (
            (NODE, self.attachments.hosts.node_of(attachment)) if of_node else (DEVICE, attachment.device_uuid)
        )
        payload = WithholdWithdrawn(request_id=attachment.request_id, reason=reason, after_withheld=after_withheld)
        causes = causes_of(attachment.last_fact)
        return Draft(kind, subject, "withhold-withdrawn", payload, causes, attachment.trace, together)

    # --- time ------------------------------------------------------------------------------------------------

    def _look_again(self, attachment: Attachment, now: Instant) -> None:
        moments = [moment for moment in self._moments(attachment) if moment > now]
        if moments:
            self.worklist.look_at(min(moments), ATTACHMENT, attachment.id)

    def _moments(self, attachment: Attachment) -> Iterator[Instant]:
        bounds = self.bounds
        if attachment.is_calling:
            yield Instant(after(attachment.deadline_at, SKEW_S) + 1)
            return
        if attachment.retry_at:
            yield attachment.retry_at
        if attachment.is_coming or attachment.phase in LEAVING:
            yield attachment.overdue_at(self.bounds)
        if attachment.failure is not None:
            yield Instant(after(attachment.settled_at, SETTLE_S) + 1)
        if attachment.phase is Phase.WITHHOLDING and not attachment.is_withheld:
            yield after(attachment.wanted_at, attachment.withhold_s(self.bounds))
        if attachment.phase in (Phase.ATTACHED, Phase.DETACHED):
            yield after(attachment.since, bounds.visible_s_max)


def is_of_node(request_id: str) -> bool:
    """Return whether the request is to drain the whole node."""
    return request_id.rpartition(".")[2].startswith("n")
