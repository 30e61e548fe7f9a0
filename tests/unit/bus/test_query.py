"""A responder, without a bus."""

import json

import pytest

from muster.bus.query import Responder
from muster.bus.service import QueryHandler
from muster.core.fact import Core
from muster.core.instant import Instant
from muster.schemas.base import Wire
from toys import SCHEDULER, Count, HowMany, Releasing


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


def test_an_answer_that_no_message_holds_is_a_problem() -> None:
    class Large(Wire):
        text: str = "x" * 2**20

    answer = responder(lambda core, request, now: Large()).answer(b"{}", reply="_INBOX.x.y") or b""
    assert json.loads(answer)["title"] == "answer too large"
