"""When a fabric is to be looked at again: now and then, and as soon as a look would settle what became of a call."""

from muster.composer.core.breaker import is_open
from muster.composer.core.limits import SKEW_S, SURVEY_BACKOFF_S_MAX
from muster.composer.core.looks import Look, Looks
from muster.composer.core.records import Attachment
from muster.composer.core.state import State
from muster.core import Instant, after


def ask_surveys(state: State, looks: Looks, now: Instant) -> None:
    """Ask for the next look at each fabric. The same again until there is one."""
    for config in state.config.fabrics:
        state.calls.ask_survey(config.name, _not_before(state, config.name, looks.at(config.name), now))


def _not_before(state: State, fabric: str, look: Look, now: Instant) -> Instant:
    moment = after(look.began_at, state.bounds.survey_s) if look.began_at else Instant(0)
    for name in state.marks.unsettled.get(fabric, ()):
        attachment = state.attachments.get(name)
        if attachment is not None and attachment.failure is not None:
            settles_at = _settles_at(attachment)
            if settles_at > look.began_at:
                moment = min(moment, settles_at)
    if look.failures and look.failed_at >= look.began_at:
        backoff_s = min(SURVEY_BACKOFF_S_MAX, state.bounds.backoff_s * 2 ** min(look.failures - 1, 16))
        moment = max(moment, after(look.failed_at, backoff_s))
    record = state.fabrics[fabric]
    return max(moment, record.retry_at) if is_open(record, now) else moment


def _settles_at(attachment: Attachment) -> Instant:
    """A look that begins then shows what its failed call did."""
    return Instant(after(attachment.settled_at, SKEW_S if attachment.is_unsure else 0.0) + 1)
