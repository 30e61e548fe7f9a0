"""A responder, without a bus."""

import base64
import json
import random
import zlib
from collections.abc import Callable

import pytest

from kit.toys import SCHEDULER, Count, HowMany, Releasing
from muster.bus.limits import QUERY_BYTES_MAX, QUERY_WHOLE_BYTES_MAX
from muster.bus.query import PackingError, Responder, unpacked
from muster.bus.service import QueryHandler
from muster.core.fact import Core
from muster.core.instant import Instant
from muster.fabric import layout
from muster.schemas import ids
from muster.schemas.base import Wire
from muster.schemas.devices import AttachmentPhase, DeviceView
from muster.schemas.queries import DevicesAnswer


class Answering:
    """A shell that leads, or does not."""

    def __init__(self, *, leading: bool = True) -> None:
        self.leading = leading
        self.core: Core = Releasing(released={"n1"})

    def now(self) -> Instant:
        return Instant(1)


def count(core: Core, request: Wire, now: Instant) -> Wire:
    assert isinstance(core, Releasing)
    assert isinstance(request, HowMany)
    return Count(released=len(core.released))


def broken(core: Core, request: Wire, now: Instant) -> Wire:
    raise KeyError("secret")


def responder(handler: QueryHandler = count, *, leading: bool = True) -> Responder:
    return Responder("scheduler", SCHEDULER.queries[0], handler, Answering(leading=leading))


@pytest.mark.parametrize("reply", ["_INBOX.gateway-query.x", "_R_.abc"])
def test_the_leader_answers_a_client(reply: str) -> None:
    assert responder().answer(b"{}", reply=reply) == b'{"released":1}'


@pytest.mark.parametrize(
    "reply", ["", "muster.atlas.scheduler.job.X.placed", "_INBOXmuster.x", "_R_", "$JS.API.STREAM.DELETE.FED", "dead.x"]
)
def test_no_other_reply_subject_is_ever_answered(reply: str) -> None:
    assert responder().answer(b"{}", reply=reply) is None


def test_who_does_not_lead_is_silent() -> None:
    assert responder(leading=False).answer(b"{}", reply="_INBOX.x.y") is None


def test_a_question_not_understood_names_the_field() -> None:
    answer = json.loads(responder().answer(b'{"job_id": 7}', reply="_INBOX.x.y") or b"")
    assert (answer["type"], answer["status"], answer["field"]) == ("about:blank", 422, "job_id")


def test_a_handler_that_fails_is_a_problem_and_tells_nothing_secret() -> None:
    answer = responder(broken).answer(b"{}", reply="_INBOX.x.y") or b""
    assert json.loads(answer)["status"] == 500
    assert b"secret" not in answer


class Large(Wire):
    text: str


def said(text: str) -> bytes:
    return responder(lambda core, request, now: Large(text=text)).answer(b"{}", reply="_INBOX.x.y") or b""


def test_an_answer_that_one_message_holds_is_sent_as_it_is() -> None:
    assert json.loads(said("x" * 2**19))["text"] == "x" * 2**19


def test_an_answer_that_no_message_holds_is_packed_and_read_as_it_was() -> None:
    answer = said("x" * 2**21)
    assert len(answer) < QUERY_BYTES_MAX
    assert Large.model_validate_json(unpacked(answer)).text == "x" * 2**21


@pytest.mark.parametrize(
    "text",
    [lambda: base64.b85encode(random.Random(1).randbytes(2**21)).decode(), lambda: "x" * QUERY_WHOLE_BYTES_MAX],
    ids=["dense", "long"],
)
def test_an_answer_that_no_message_holds_even_packed_is_a_problem(text: Callable[[], str]) -> None:
    assert json.loads(said(text()))["title"] == "answer too large"


@pytest.mark.parametrize(
    "data", [zlib.compress(b"x" * (QUERY_WHOLE_BYTES_MAX + 1)), zlib.compress(b"x" * 99)[:-3], b"\x78nonsense"]
)
def test_what_cannot_be_unpacked_is_no_answer_and_fills_no_memory(data: bytes) -> None:
    with pytest.raises(PackingError):
        unpacked(data)


def test_a_fleet_of_devices_fits_into_one_answer() -> None:
    devices = tuple(
        DeviceView(
            id=f"a-{layout.pool_device_uuid('east', 'a', index)}",
            model="NVIDIA-A100-PCIE-40GB",
            node=layout.node_name("flexible", index // 8),
            fabric="east",
            device_uuid=layout.pool_device_uuid("east", "d", index),
            device_id=layout.fabric_device_id(str(index)),
            phase=AttachmentPhase.ONLINE,
            request="request-0123456789ab",
            holders=(ids.job_id(team="lab", principal="ada", idempotency_key=str(index)),),
            since=1_700_000_000_000_000_000 + index,
        )
        for index in range(4_000)
    )
    answer = responder(lambda core, request, now: DevicesAnswer(devices=devices)).answer(b"{}", reply="_INBOX.x.y")
    assert DevicesAnswer.model_validate_json(unpacked(answer or b"")).devices == devices
