"""Append of single facts, without lease, term or fence: for the gateway, and for copies between streams."""

from dataclasses import dataclass
from enum import StrEnum

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.batches import Outgoing, Writer
from muster.bus.ports import ApiError, FactRefusedError, LogUnavailableError
from muster.core.fact import Draft
from muster.schemas.subjects import LogName

EXPECTED_LAST_ON_SUBJECT = "Nats-Expected-Last-Subject-Sequence"
SINGLE_TIMEOUT_S = 2.0


class Outcome(StrEnum):
    """Outcome of one message.

    EXISTS: its subject already holds a message (or its id was stored within the duplicate window); look it up.
    UNAVAILABLE: no answer, so whether it was stored is unknown; the same message may be sent again.
    """

    STORED = "stored"
    EXISTS = "exists"
    FULL = "full"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Single:
    """Outcome of one message and its reason. seq: its position (STORED, or EXISTS if the broker reports it), else 0."""

    outcome: Outcome
    seq: int = 0
    detail: str = ""


async def append_single(
    client: Client,
    log: LogName,
    *,
    service: str,
    draft: Draft,
    fact_id: str,
    expect_new: bool = False,
    expect_last: int = 0,
    timeout_s: float = SINGLE_TIMEOUT_S,
) -> Single:
    """Store one draft of `service` as the fact `fact_id`. expect_new: only if its subject holds nothing yet.
    expect_last: only if the newest message of its subject has this sequence.

    Raises FactRefusedError (a draft that the service may not write, or too large) and ApiError (a defect).
    """
    message = Writer(log, service).write(draft, fact_id)
    return await publish(client, message, expect_new=expect_new, expect_last=expect_last, timeout_s=timeout_s)


async def publish(
    client: Client,
    message: Outgoing,
    *,
    expect_new: bool = False,
    expect_last: int = 0,
    timeout_s: float = SINGLE_TIMEOUT_S,
) -> Single:
    """Store one message and wait for the stream's answer.

    Raises FactRefusedError if the stream never takes this message, and ApiError for other refusals that are defects.
    """
    guarded = expect_new or expect_last
    headers = {**message.headers, EXPECTED_LAST_ON_SUBJECT: str(expect_last)} if guarded else message.headers
    try:
        answer = await jsapi.ask(client, message.subject, message.body, headers=headers, timeout_s=timeout_s)
        ack = jsapi.PubAck.model_validate_json(jsapi.check(answer.data))
    except LogUnavailableError as error:
        return Single(Outcome.UNAVAILABLE, detail=str(error))
    except ApiError as error:
        if error.err_code in jsapi.WRONG_LAST_SEQUENCE:
            return Single(Outcome.EXISTS, detail=error.description)
        if error.err_code in jsapi.STORAGE_ERRORS:
            return Single(Outcome.FULL, detail=error.description)
        if error.err_code in jsapi.MESSAGE_TOO_LARGE:
            raise FactRefusedError(f"{message.subject}: {error.description}") from error
        raise
    return Single(Outcome.EXISTS if ack.duplicate else Outcome.STORED, ack.seq)
