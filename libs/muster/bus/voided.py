"""What operators let services skip: the `voided` facts of a log, read before anything is folded."""

import base64
import logging

from nats.aio.client import Client
from pydantic import BaseModel, ConfigDict, ValidationError

from muster.bus import jsapi
from muster.bus.checkpoint import Voidance
from muster.bus.errors import ApiError
from muster.schemas.facts.control import Voided
from muster.schemas.subjects import LogName, fact_subject

VOIDED_MAX = 10_000  # of one log; more is a mistake worth stopping at

_logger = logging.getLogger(__name__)


class _Found(BaseModel):
    model_config = ConfigDict(extra="ignore")
    seq: int
    data: str = ""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    message: _Found


async def read_voided(client: Client, log: LogName) -> tuple[Voidance, ...]:
    """All `voided` of a log, by subject, from the stream's leader: few, however long the log is.

    Raises LogUnavailableError, ApiError.
    """
    subject = fact_subject(log, writer="operator", kind="log", subject_id="*", name="voided", cluster="*")
    found: list[Voidance] = []
    seq = 0
    while len(found) < VOIDED_MAX:
        try:
            body = await jsapi.call(client, f"STREAM.MSG.GET.{log.stream}", {"seq": seq + 1, "next_by_subj": subject})
        except ApiError as error:
            if error.err_code == jsapi.NO_MESSAGE:
                return tuple(found)
            raise
        message = _Answer.model_validate_json(body).message
        seq = message.seq
        try:
            said = Voided.model_validate_json(base64.b64decode(message.data))
        except ValidationError:
            _logger.warning("%s: the voided fact at %d cannot be read; it voids nothing", log.stream, seq)
            continue
        found.append(Voidance(seq=said.seq, service=said.service, said_at=seq))
    raise ApiError(0, f"{log.stream} holds more than {VOIDED_MAX} voided facts")
