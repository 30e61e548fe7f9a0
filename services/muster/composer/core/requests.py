"""Move requests: answer them, and follow their devices."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.composer.core.capacity import Refusal
from muster.composer.core.decision import Decision, causes_of
from muster.composer.core.limits import Bounds
from muster.composer.core.orphans import attachment_id
from muster.composer.core.plans import Plan, Planner, Wait, count, rival_keys
from muster.composer.core.records import LEAVING, Attachment, FabricRecords, Request, Requests
from muster.composer.core.state import Attachments
from muster.composer.core.worklist import REQUEST, Worklist
from muster.core import Draft, Instant, after
from muster.schemas.base import Payload
from muster.schemas.devices import GPU, AttachmentPhase, ComposabilitySpec, Origin, RequestPhase
from muster.schemas.facts.composability import (
    ComposeRequested,
    DecomposeRequested,
    DeviceOrder,
    PendingRequestChange,
    RequestAccepted,
    RequestEnded,
    RequestMoved,
    RequestRefused,
)
from muster.schemas.facts.scale import ScaleChosen


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestSteps:
    """Answers and moves requests."""

    bounds: Bounds
    requests: Requests
    attachments: Attachments
    fabrics: FabricRecords
    planner: Planner
    worklist: Worklist

    def make(self, decision: Decision) -> None:
        """Add the next facts of all marked requests."""
        for name in tuple(self.worklist.requests):
            request = self.requests.get(name)
            if request is None:
                del self.worklist.requests[name]
                continue
            if decision.is_full:
                return
            draft = self._answer(request, decision) or self._go_on(request)
            if draft is not None:
                decision.drafts.append(draft)
                if isinstance(draft.payload, RequestMoved) and draft.payload.phase is RequestPhase.CLEANING:
                    decision.stopped.add(name)
            else:
                del self.worklist.requests[name]

    def _answer(self, request: Request, decision: Decision) -> Draft | None:
        """Return the answer to the oldest open part; None while it must wait."""
        pending = next(iter(request.wishes.values()), None)
        if pending is None:
            return None
        if pending.decompose is not None:
            return self._delete(request, pending, pending.decompose)
        found: Plan | Refusal | Wait
        if pending.compose is not None:
            found = self.planner.compose(
                request.name, pending.compose.spec, decision.tally, may_force=pending.compose.may_force
            )
        else:
            assert pending.chosen is not None, "a request has one body"
            found = self._judge_choice(request.name, pending.chosen, decision)
        if isinstance(found, Wait):
            until = after(Instant(pending.at), self._patience_s(pending))
            if len(request.wishes) == 1 and decision.now < until:  # a later request ends the wait for an earlier one
                self.worklist.look_at(until, REQUEST, request.name)
                return None
            found = Refusal(found.field, found.reason)
        if isinstance(found, Refusal):
            return _refuse(request, pending, found)
        if pending.compose is not None:
            return _accept(request, pending, pending.compose, found, decision)
        assert pending.chosen is not None
        return _accept_choice(request, pending, pending.chosen, found, decision)

    def _patience_s(self, request: PendingRequestChange) -> float:
        bounds = self.bounds
        if request.chosen is not None and request.chosen.devices:
            return bounds.scaler_withhold_s + bounds.detach_s_max + bounds.attach_s_max
        return bounds.attach_s_max

    def _judge_choice(self, name: str, chosen: ScaleChosen, decision: Decision) -> Plan | Refusal | Wait:
        """Judge a scaling decision. Moved devices come back first; if one cannot, the decision ends."""
        for uuid in chosen.devices:
            owner = self.attachments.by_uuid.get(uuid)
            if owner is None:
                if not chosen.parts and not self._was_taken(uuid):
                    return Refusal("devices", f"no fabric put device {uuid} on a machine")
                continue
            attachment = self.attachments[owner]
            if not chosen.parts:
                continue
            if attachment.wish is not None or attachment.phase in LEAVING:
                self.worklist.wait_for(uuid, name)
                return Wait(f"device {uuid} is on its way back", "devices")
            holders = self.attachments.hosts.holders(attachment)
            reason = attachment.error or "it was not taken back"
            return Refusal("devices", f"device {uuid} stays: {reason}", holders[0] if holders else "")
        return self.planner.parts(chosen, decision.tally)

    def _was_taken(self, uuid: str) -> bool:
        return any(uuid in fabric.uuids_away for fabric in self.fabrics.values())

    def _delete(self, request: Request, pending: PendingRequestChange, asked: DecomposeRequested) -> Draft:
        why = self.deletion_refusal(request.name, force=asked.force, may_force=asked.may_force)
        if why is not None:
            return _refuse(request, pending, why)
        return _draft(request, "moved", RequestMoved(phase=RequestPhase.CLEANING), pending)

    def deletion_refusal(self, name: str, *, force: bool, may_force: bool) -> Refusal | None:
        """Return why a request may not be deleted; None if it may."""
        request = self.requests.get(name)
        if request is None or not request.is_live:
            return Refusal("name", f"there is no request {name}")
        if force and not may_force:
            for one in request.attachments:
                holders = (
                    self.attachments.hosts.holders(self.attachments[one]) if self.attachments[one].has_device else ()
                )
                if holders:
                    uuid = self.attachments[one].device_uuid
                    reason = f"{uuid} is held by {holders[0]}, and taking it by force needs an operator's role"
                    return Refusal("force", reason, holders[0])
        return None

    def _go_on(self, request: Request) -> Draft | None:
        if not request.is_live:
            return None
        attachments = [self.attachments[name] for name in request.attachments]
        if request.deleting:
            return _end(request, attachments)
        spec = request.spec
        assert spec is not None
        if spec.target_node and spec.target_node not in self.attachments.hosts.nodes:
            return _move(request, RequestPhase.CLEANING, f"target node {spec.target_node} left the cluster")
        if request.all_or_nothing and request.error and not request.was_running:
            return _move(request, RequestPhase.CLEANING, request.error)
        if any(True for _ in _open(attachments)):
            return (
                None if request.phase is RequestPhase.UPDATING else _move(request, RequestPhase.UPDATING, request.error)
            )
        if request.phase is RequestPhase.UPDATING:
            return _move(request, RequestPhase.RUNNING, request.error)
        if request.origin is Origin.SCALER and not attachments:
            return _draft(request, "ended", RequestEnded(reason="all its devices went back"))
        return None


def _accept(
    request: Request, pending: PendingRequestChange, asked: ComposeRequested, plan: Plan, decision: Decision
) -> Draft:
    count(decision.tally, plan.orders, asked.spec.type)
    decision.tally.held_by.setdefault(rival_keys(asked.spec), request.name)
    payload = RequestAccepted(
        spec=asked.spec,
        principal=asked.principal,
        orders=_orders(pending, plan, asked.spec.type, asked.spec.model),
        devices=plan.victims,
    )
    return _draft(request, "accepted", payload, pending)


def _accept_choice(
    request: Request, pending: PendingRequestChange, chosen: ScaleChosen, plan: Plan, decision: Decision
) -> Draft:
    count(decision.tally, plan.orders, GPU)
    model = plan.orders[0].model if plan.orders else chosen.device_model or "none"
    nodes = {order.site.node for order in plan.orders}
    spec = ComposabilitySpec(
        type=GPU, model=model, size=len(plan.orders), target_node=min(nodes) if len(nodes) == 1 else ""
    )
    payload = RequestAccepted(
        spec=spec,
        origin=Origin.SCALER,
        orders=_orders(pending, plan, GPU, model),
        jobs=tuple(job for job in chosen.jobs if is_job_id(job)),
        scale=request.name,
        all_or_nothing=True,
    )
    return _draft(request, "accepted", payload, pending)


def is_job_id(text: str) -> bool:
    """Return whether the text has the form of a job id."""
    return len(text) == 26 and all("A" <= char <= "Z" or "2" <= char <= "7" for char in text)


def _orders(request: PendingRequestChange, plan: Plan, type_: str, model: str) -> tuple[DeviceOrder, ...]:
    return tuple(
        DeviceOrder(
            id=attachment_id(type_, request.fact, index),
            node=order.site.node,
            fabric=order.site.fabric,
            machine=order.site.machine,
            model="" if order.model == model else order.model,
        )
        for index, order in enumerate(plan.orders)
    )


def _refuse(request: Request, pending: PendingRequestChange, why: Refusal) -> Draft:
    asked = pending.compose or pending.decompose
    payload = RequestRefused(
        field=why.field,
        reason=why.reason[:1024],
        holder=why.holder,
        spec=pending.compose.spec if pending.compose is not None else None,
        principal=asked.principal if asked is not None else "",
    )
    return _draft(request, "refused", payload, pending)


def _end(request: Request, attachments: list[Attachment]) -> Draft | None:
    """End a request without attachments; devices that a failed decision could not get back stay with their jobs."""
    if any(one.wish is not None or one.is_coming or one.phase in LEAVING for one in attachments):
        return None
    if attachments and not (request.failed and request.all_or_nothing):
        return None
    return _draft(request, "ended", RequestEnded(reason=request.error, failed=request.failed))


def _open(attachments: list[Attachment]) -> Iterator[Attachment]:
    for one in attachments:
        if one.is_coming or one.phase in (*LEAVING, AttachmentPhase.ATTACHED, AttachmentPhase.VISIBLE):
            yield one


def _move(request: Request, phase: RequestPhase, error: str) -> Draft:
    return _draft(request, "moved", RequestMoved(phase=phase, error=error[:1024]))


def _draft(request: Request, name: str, payload: Payload, pending: PendingRequestChange | None = None) -> Draft:
    causes = causes_of(pending.fact if pending is not None else "", request.last_fact)
    trace = (pending.trace if pending is not None else "") or request.trace
    return Draft("composability", request.name, name, payload, causes, trace)
