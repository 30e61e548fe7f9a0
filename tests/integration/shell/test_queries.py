"""Questions over a real nats-server: asked from the account of questions, answered by the leader alone."""

import pytest

from kit.servers import CLUSTER
from kit.stack.hosted import HostedServices, until_leading
from kit.toys import Count, HowMany, scheduler
from kit.waiting import until
from muster.bus.query import ProblemError, UnansweredError, ask
from muster.schemas.base import Wire
from muster.schemas.subjects import query_subject

pytestmark = pytest.mark.connected
SUBJECT = query_subject(CLUSTER, "scheduler", "queues")


class Named(Wire):
    """A question with a name of the wrong type."""

    job_id: int = 7


async def test_a_question_is_answered_from_the_leaders_state(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler())
    shell = await until_leading(hosting.shells)
    await harness.join("n1", "n2")
    await until(lambda: len(shell.core.released) == 2)  # type: ignore[attr-defined]
    asker = await harness.client("gateway-query")
    assert (await ask(asker, SUBJECT, HowMany(), Count, timeout_s=2)).released == 2


async def test_a_follower_is_silent(harness: HostedServices) -> None:
    leading, following = await harness.host(scheduler()), await harness.host(scheduler())
    leader = await until_leading([*leading.shells, *following.shells])
    asker = await harness.client("gateway-query")
    answers: list[bytes] = []
    inbox = asker.new_inbox()

    async def collect(message: object) -> None:
        answers.append(message.data)  # type: ignore[attr-defined]

    await asker.subscribe(inbox, cb=collect)
    await asker.publish(SUBJECT, b"{}", reply=inbox)
    await until(lambda: answers)
    await asker.request(SUBJECT, b"{}", timeout=2)  # a second answer to the first would have come before this one
    assert len(answers) == 1
    assert leader.leading


async def test_nobody_leads_nobody_answers(harness: HostedServices) -> None:
    asker = await harness.client("gateway-query")
    with pytest.raises(UnansweredError):
        await ask(asker, SUBJECT, HowMany(), Count, timeout_s=0.3)


async def test_a_question_that_makes_no_sense_is_answered_with_the_field(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler())
    await until_leading(hosting.shells)
    asker = await harness.client("gateway-query")
    reply = await asker.request(SUBJECT, b"no JSON", timeout=2)
    assert b'"status":422' in reply.data
    with pytest.raises(ProblemError, match="question not understood"):
        await ask(asker, query_subject(CLUSTER, "scheduler", "queues"), Named(), Count, timeout_s=2)


async def test_a_reply_subject_that_is_a_fact_is_never_answered(harness: HostedServices) -> None:
    """The asker's own account and the responder's permissions refuse it too; here the responder alone is asked."""
    hosting = await harness.host(scheduler())
    await until_leading(hosting.shells)
    before = await harness.facts()
    asker = await harness.client("gateway-query")
    await asker.publish(SUBJECT, b"{}", reply="muster.atlas.scheduler.node.n9.released")
    assert (await ask(asker, SUBJECT, HowMany(), Count, timeout_s=2)).released == 0  # so the first was handled
    assert [fact.id for fact in await harness.facts()] == [fact.id for fact in before]
