"""Which calls begin now: as many as a fabric may have under way, none while its breaker is open.

Detachments go first: they give devices back that attachments may be waiting for.
"""

from muster.composer.core.breaker import is_open, is_probing
from muster.composer.core.config import FabricConfig
from muster.composer.core.limits import START_S
from muster.composer.core.records import Attachment
from muster.composer.core.state import State
from muster.composer.core.turn import Turn
from muster.core import after
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.device import CallStarted


def dispatch(state: State, turn: Turn) -> None:
    """Say the intents for which there is room."""
    for config in state.config.fabrics:
        attach, detach = state.marks.attach.get(config.name), state.marks.detach.get(config.name)
        if attach or detach:
            _begin(state, config, tuple(detach or ()) + tuple(attach or ()), turn)


def _begin(state: State, config: FabricConfig, waiting: tuple[str, ...], turn: Turn) -> None:
    fabric = state.fabrics[config.name]
    if is_open(fabric, turn.now) or config.name in turn.opened:
        return
    room = config.limit - state.in_flight(config.name, turn.now)
    if is_probing(fabric, turn.now):
        room = min(1, room) if room == config.limit else 0
    for name in waiting:
        if room <= 0 or turn.is_full:
            return
        attachment = state.attachments[name]
        if name not in turn.moved and (attachment.has_device or attachment.requested.request not in turn.stopped):
            _call(attachment, config, turn)
            room -= 1


def _call(attachment: Attachment, config: FabricConfig, turn: Turn) -> None:
    """The intent. Its deadline leaves the call its whole time, also if it is begun as late as it may be."""
    deadline_at = after(turn.now, START_S + config.call_s)
    attempt = attachment.attempt + 1
    if attachment.is_coming:
        turn.say(attachment, "attaching", CallStarted(attempt=attempt, deadline_at=deadline_at))
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
    turn.say(attachment, "detaching", payload)
