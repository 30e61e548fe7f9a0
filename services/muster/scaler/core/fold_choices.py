"""Folds of the composer's facts about devices, pools and requests, and of the scaler's own choices."""

from muster.core import Fact, Instant
from muster.core.folding import Folds
from muster.scaler.core.choices import ADD, ATTACH, REMOVE_GPU, REMOVE_NODE, EndedChoice, OpenChoice, Outcome
from muster.scaler.core.fabrics import Attachment
from muster.scaler.core.state import State
from muster.schemas.base import Payload
from muster.schemas.devices import AttachmentPhase, Origin
from muster.schemas.facts.composability import RequestEnded, RequestRefused
from muster.schemas.facts.device import AttachmentFailed, AttachmentRequested, DeviceAttached, DeviceDetached
from muster.schemas.facts.fabric import BreakerClosed, BreakerOpened, FabricSurveyed
from muster.schemas.facts.scale import NothingChosen, ScaleChosen, ScaleEnded

FOLDS = Folds[State, None]()

PHASES = {
    "attaching": AttachmentPhase.ATTACHING,
    "attached": AttachmentPhase.ATTACHED,
    "visible": AttachmentPhase.VISIBLE,
    "online": AttachmentPhase.ONLINE,
    "detach-wanted": AttachmentPhase.WITHHOLDING,
    "detach-given-up": AttachmentPhase.ONLINE,
    "detaching": AttachmentPhase.DETACHING,
}
"""The phase of an attachment after each fact."""


UNCOUNTED = frozenset({Origin.FOUND, Origin.ORPHAN})
"""Origins of devices that were on a machine when first seen: the survey has already counted them there."""


@FOLDS.on("attachment", "requested", AttachmentRequested)
def _requested(state: State, fact: Fact, requested: AttachmentRequested) -> None:
    attachment = Attachment(fact.subject_id, requested, requested.node, since=fact.time)
    state.cluster.lift(attachment.node)
    state.attachments.put(attachment)
    state.changes.added += 1


@FOLDS.on("attachment", tuple(PHASES), Payload)
def _moved(state: State, fact: Fact, moved: Payload) -> None:
    attachment = _known(state, fact)
    if attachment is None:
        return
    mark_dirty(state, attachment)
    uuid = moved.device_uuid if isinstance(moved, DeviceAttached) else ""
    state.attachments.move(attachment, PHASES[fact.name], at=fact.time, device_uuid=uuid)
    state.find_node(attachment.device_uuid)
    if fact.name == "attached" and attachment.requested.origin not in UNCOUNTED:
        state.pool.take((attachment.requested.fabric, attachment.requested.type, attachment.requested.model))
    if fact.name == "online":
        state.cooldowns.note_moved(attachment.node, fact.time)


@FOLDS.on("attachment", ("detached", "failed"), (DeviceDetached, AttachmentFailed))
def _over(state: State, fact: Fact, _: DeviceDetached | AttachmentFailed) -> None:
    attachment = _known(state, fact)
    if attachment is None:
        return
    mark_dirty(state, attachment)
    state.attachments.remove(attachment.id)
    if fact.name == "detached":
        state.pool.give((attachment.requested.fabric, attachment.requested.type, attachment.requested.model))
        state.cooldowns.note_moved(attachment.node, fact.time)
    else:
        state.pool.version += 1


def mark_dirty(state: State, attachment: Attachment) -> None:
    """Note that the attachment changed: lift its node, and check the choices that wait for it."""
    state.cluster.lift(attachment.node)
    state.choices.mark_dirty(attachment.requested.request)
    state.choices.mark_device_dirty(attachment.device_uuid)


@FOLDS.on("fabric", "surveyed", FabricSurveyed)
def _surveyed(state: State, fact: Fact, surveyed: FabricSurveyed) -> None:
    state.pool.survey(fact.subject_id, surveyed.pool)


@FOLDS.on("fabric", "breaker-opened", BreakerOpened)
def _breaker_opened(state: State, fact: Fact, opened: BreakerOpened) -> None:
    state.pool.open_breaker(fact.subject_id, Instant(opened.retry_at))


@FOLDS.on("fabric", "breaker-closed", BreakerClosed)
def _breaker_closed(state: State, fact: Fact, _: BreakerClosed) -> None:
    state.pool.close_breaker(fact.subject_id)


@FOLDS.on("composability", "refused", RequestRefused)
def _refused(state: State, fact: Fact, refused: RequestRefused) -> None:
    reason = f"{refused.field}: {refused.reason}" if refused.field else refused.reason
    _note_outcome(state, fact, Outcome(True, reason, fact.id))


@FOLDS.on("composability", "ended", RequestEnded)
def _request_ended(state: State, fact: Fact, ended: RequestEnded) -> None:
    _note_outcome(state, fact, Outcome(ended.failed, ended.reason, fact.id))


def _note_outcome(state: State, fact: Fact, outcome: Outcome) -> None:
    if fact.subject_id in state.choices.open:
        state.choices.outcomes[fact.subject_id] = outcome
        state.choices.mark_dirty(fact.subject_id)


def _known(state: State, fact: Fact) -> Attachment | None:
    attachment = state.attachments.all.get(fact.subject_id)
    if attachment is None:
        state.anomalies[f"{fact.name} of no attachment"] += 1
    return attachment


@FOLDS.on("scale", (ATTACH, ADD, REMOVE_GPU, REMOVE_NODE), ScaleChosen)
def _chosen(state: State, fact: Fact, chosen: ScaleChosen) -> None:
    if fact.subject_id in state.choices.open:
        state.anomalies["chosen twice"] += 1
        return
    state.choices.chosen += 1
    choice = OpenChoice(fact.subject_id, fact.name, chosen, fact.time, fact.id, fact.trace)
    state.choices.add(choice)
    lift(state, choice)
    state.refused.forget(*chosen.jobs, chosen.node)


def lift(state: State, choice: OpenChoice) -> None:
    """Lift the nodes of a choice, and the nodes of its devices, because the choice begins or ends."""
    state.cluster.lift(*choice.nodes)
    for device in choice.chosen.devices:
        attachment = state.attachments.of_device.get(device)
        node = attachment.node if attachment is not None else state.cluster.nodes.node_of("device", device)
        if node:
            state.cluster.lift(node)


@FOLDS.on("scale", "ended", ScaleEnded)
def _ended(state: State, fact: Fact, ended: ScaleEnded) -> None:
    known = state.choices.open.get(fact.subject_id)
    if known is None:
        state.anomalies["ended twice"] += 1
        return
    lift(state, known)
    state.choices.remove(known.id)
    state.changes.added += 1
    state.choices.ended.append(EndedChoice(known, ended, fact.time))
    if known.name == REMOVE_NODE:
        state.choices.withheld[known.chosen.node] = None
    if ended.failed:
        state.cooldowns.note_failed(known, fact.time)
    elif known.serves and not (known.name == ADD and known.chosen.parts):
        for job in known.chosen.jobs:  # a node added for GPUs that are still to be attached serves no job yet
            state.jobs.note_served(job, fact.time)


@FOLDS.on("scale", "nothing-chosen", NothingChosen)
def _nothing_chosen(state: State, fact: Fact, nothing: NothingChosen) -> None:
    state.refused.report(fact.subject_id, nothing, at=fact.time)
