"""What receivers get: over a real nats-server with the rights of the notifier's own user, at real HTTP receivers."""

import asyncio

import pytest
from redis.asyncio import Redis

from kit.loopback import served
from kit.servers import CLUSTER
from kit.stack.webhooks import (
    DASHBOARD,
    LOG,
    SECRET,
    TRACE,
    Received,
    Receiver,
    Reply,
    WebhookHarness,
    a_job,
    answering,
    webhook,
)
from kit.waiting import until, until_async
from muster.core.instant import NS_PER_S
from muster.notifier.signing import parse_secrets, signature
from muster.schemas.facts.job import JobFinished, JobSubmitted
from muster.schemas.facts.scale import Alternative, ScaleChosen
from muster.schemas.job import Phase
from muster.schemas.readmodel import read_model
from muster.schemas.subjects import FED_LOG
from muster.schemas.views import JobView

pytestmark = pytest.mark.connected


async def test_the_end_of_a_job_is_told_with_what_its_owner_asks_first(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await harness.notify(webhook("told", f"{url}/hook?key=1"))
        job = a_job("train-42")
        await harness.run_job(job, nodes=("n1", "n1", "n2"))
        fact = await harness.end_job(job, "failed", exit_code=137, reason="pods exited with 137", ran_s=12.5)
        request = (await receiver.until(1))[0]
    assert (request.path, request.id, request.message["type"]) == ("/hook", fact, "job-ended")
    told = request.data
    assert told | {
        "job_id": job.id, "name": "train-42", "team": "physics", "queue": "physics", "principal": "ada",
        "cluster": CLUSTER, "phase": "failed", "reason": "pods exited with 137", "exit_code": 137, "attempt": 1,
        "gpus": 2.0, "nodes": ["n1", "n2"], "nodes_total": 2, "ran_s": 12.5, "trace_id": TRACE,
        "url": f"{DASHBOARD}/jobs/{job.id}",
    } == told  # fmt: skip
    assert str(told["submitted_at"]) <= str(told["started_at"]) <= str(told["ended_at"])
    assert request.headers["traceparent"].split("-")[1] == TRACE


async def test_a_job_that_never_reached_a_cluster_is_told_too(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await harness.notify(webhook("fed", url))
        job, gone = a_job("early"), JobFinished(reason="cancelled before it was routed")
        await harness.say("gateway", "job", job.id, "submitted", JobSubmitted(job=job), log=FED_LOG)
        await harness.say("federation", "job", job.id, "cancelled", gone, log=FED_LOG)
        request = (await receiver.until(1))[0]
    assert (request.data["phase"], request.data["job_id"], request.job_name) == ("cancelled", job.id, "early")


async def test_a_job_older_than_its_log_is_looked_up_in_the_read_model(harness: WebhookHarness) -> None:
    receiver, job = Receiver(), a_job("ancient")
    row = JobView(
        id=job.id, name="ancient", team="physics", principal="ada", queue="physics", phase=Phase.RUNNING, attempt=1,
        nodes=("n7",), submitted_at=NS_PER_S, running_at=2 * NS_PER_S, gpu_milli=2000,
    )  # fmt: skip
    async with served(receiver) as url, Redis.from_url(harness.redis_url) as redis:
        await redis.hset(read_model(LOG).key("jobs"), job.id, row.model_dump_json())
        await harness.notify(webhook("ancient", url, teams=["physics"]))
        await harness.end_job(job)
        request = (await receiver.until(1))[0]
    assert (request.job_name, request.data["nodes"], request.data["submitted_at"]) == (
        "ancient", ["n7"], "1970-01-01T00:00:01.000Z",
    )  # fmt: skip


async def test_an_end_is_told_also_where_nobody_knows_the_jobs_name_any_more(harness: WebhookHarness) -> None:
    harness.redis_url = "redis://127.0.0.1:1/0"
    receiver, job = Receiver(), a_job("nameless")
    async with served(receiver) as url:
        await harness.notify(webhook("nameless", url))
        await harness.end_job(job, "failed", exit_code=2, ran_s=3)
        request = (await receiver.until(1))[0]
    assert (request.data["job_id"], request.data["phase"], request.data["name"]) == (job.id, "failed", "")


async def test_a_choice_of_scaling_is_told_with_its_reason_and_its_jobs(harness: WebhookHarness) -> None:
    receiver = Receiver()
    job = a_job("waits")
    await harness.run_job(job)
    chosen = ScaleChosen(
        case=1, node="flex-1", device_model="H100", count=2, jobs=(job.id,), reason="2 GPUs short",
        alternatives=(Alternative(what="add a node", fits=True),),
    )  # fmt: skip
    async with served(receiver) as url:
        await harness.notify(webhook("scale", url, events=["scale-chosen"]))
        await harness.say("scaler", "scale", "s1", "gpu-attach-chosen", chosen)
        request = (await receiver.until(1))[0]
    told = request.data
    assert (told["choice"], told["count"], told["node"], told["reason"]) == (
        "gpu-attach-chosen", 2, "flex-1", "2 GPUs short",
    )  # fmt: skip
    assert told["jobs"] == [{"job_id": job.id, "name": "waits", "team": "physics"}]
    assert request.message["type"] == "scale-chosen"


async def test_a_request_is_signed_so_that_its_receiver_can_check_it(harness: WebhookHarness) -> None:
    receiver = Receiver()
    secret = harness.server.directory / "signed.secret"
    secret.write_text(f"{SECRET}\n")
    async with served(receiver) as url:
        await harness.notify(webhook("signed", url, secret=str(secret)))
        await harness.job("signed")
        request = (await receiver.until(1))[0]
    expected = signature(
        parse_secrets(SECRET),
        message_id=request.id,
        timestamp_s=int(request.headers["webhook-timestamp"]),
        body=request.body,
    )
    assert request.headers["webhook-signature"] == expected


async def test_a_webhook_of_a_team_hears_of_no_other_team(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await harness.notify(webhook("team", url, teams=["biology"]))
        await harness.job("secret-work", team="physics")
        await harness.job("ours", team="biology")
        await receiver.until(1)
        await until_async(lambda: _is_done(harness, "team"))
    assert [request.job_name for request in receiver.received] == ["ours"]


async def test_what_failed_comes_again_with_the_same_id_and_body_and_before_what_came_later(
    harness: WebhookHarness,
) -> None:
    receiver = Receiver(answering(500, 503, 204))
    async with served(receiver) as url:
        await harness.notify(webhook("order", url))
        first, second = await harness.job("first"), await harness.job("second")
        await receiver.until(4)
    assert [request.id for request in receiver.received] == [first, first, first, second]
    assert len({request.body for request in receiver.received[:3]}) == 1


async def test_a_slow_receiver_delays_nobody_else(harness: WebhookHarness) -> None:
    asked = asyncio.Event()

    async def hang(_: Received) -> Reply:
        asked.set()
        await asyncio.Event().wait()
        return 204, {}

    slow, quick = Receiver(hang), Receiver()
    async with served(slow) as slow_url, served(quick) as quick_url:
        await harness.notify(webhook("slow", slow_url, timeout_s=60), webhook("quick", quick_url))
        await harness.job("one")
        await asked.wait()
        await harness.job("two")
        await quick.until(2)
        assert len(slow.received) == 1


async def test_a_receiver_that_hangs_is_left_after_its_time(harness: WebhookHarness) -> None:
    async def hang_once(_: Received) -> Reply:
        if len(receiver.received) == 1:
            await asyncio.Event().wait()
        return 204, {}

    receiver = Receiver(hang_once)
    async with served(receiver) as url:
        await harness.notify(webhook("hangs", url, timeout_s=0.2))
        fact = await harness.job("patient")
        await receiver.until(2)
    assert [request.id for request in receiver.received] == [fact, fact]


async def test_whatever_a_receiver_sends_in_headers_the_next_event_is_told_and_nothing_of_it_is_kept(
    harness: WebhookHarness,
) -> None:
    async def odd(_: Received) -> Reply:
        headers = {"Retry-After": "Thu, 01 Jan 1970 00:00:00 +99999999999999999", "Set-Cookie": "who=you"}
        return 503 if len(receiver.received) == 1 else 204, headers

    receiver = Receiver(odd)
    async with served(receiver) as url:
        await harness.notify(webhook("odd", url))
        first, second = await harness.job("first"), await harness.job("second")
        await receiver.until(3)
    assert [request.id for request in receiver.received] == [first, first, second]
    assert not any("cookie" in request.headers for request in receiver.received)


async def test_a_redirect_is_not_followed(harness: WebhookHarness) -> None:
    elsewhere = Receiver()
    async with served(elsewhere) as other_url:

        async def redirect(_: Received) -> Reply:
            return 307, {"Location": other_url}

        receiver = Receiver(redirect)
        async with served(receiver) as url:
            await harness.notify(webhook("redirected", url, attempts_max=2))
            await harness.job("here")
            await receiver.until(2)
            await until_async(lambda: _is_done(harness, "redirected"))
    assert elsewhere.received == []


async def test_what_nobody_takes_becomes_one_dead_letter_and_the_next_goes_on(harness: WebhookHarness) -> None:
    async def refuse_the_first(request: Received) -> Reply:
        return (500 if request.job_name == "lost" else 204), {}

    receiver = Receiver(refuse_the_first)
    async with served(receiver) as url:
        await harness.notify(webhook("dead", url, attempts_max=3))
        lost, later = await harness.job("lost"), await harness.job("later")
        await receiver.until(4)
    assert [request.id for request in receiver.received] == [lost, lost, lost, later]
    letters = [letter for letter in await harness.dead() if letter.subject.startswith("dead.webhook.dead.")]
    assert [letter.body for letter in letters] == [receiver.received[0].body]
    assert "attempt 3: the receiver answered 500" in letters[0].headers["muster-dead-error"]


async def test_a_message_that_is_refused_for_itself_is_not_offered_for_an_hour(harness: WebhookHarness) -> None:
    receiver = Receiver(answering(400))
    async with served(receiver) as url:
        await harness.notify(webhook("refused", url, attempts_max=100))
        await harness.job("wrong")
        await until_async(lambda: _is_done(harness, "refused"))
    assert len(receiver.received) == 3


async def test_a_receiver_that_is_gone_is_asked_nothing_more_and_the_event_stays(harness: WebhookHarness) -> None:
    receiver = Receiver(answering(410))
    async with served(receiver) as url:
        hosting = await harness.notify(webhook("gone", url))
        await harness.job("last")
        await harness.job("never")
        await until(lambda: not any("webhook gone LOG" in task.get_name() for task in asyncio.all_tasks()))
        assert len(receiver.received) == 1
        assert await harness.waiting("gone") == 2
        await hosting.end()


async def test_a_notifier_that_dies_in_mid_delivery_delivers_after_all_with_the_same_id(
    harness: WebhookHarness,
) -> None:
    asked = asyncio.Event()

    async def hang(_: Received) -> Reply:
        asked.set()
        await asyncio.Event().wait()
        return 204, {}

    receiver = Receiver(hang)
    async with served(receiver) as url:
        first = await harness.notify(webhook("restarted", url, timeout_s=60))
        fact = await harness.job("survivor")
        await asked.wait()
        await first.end()
        receiver.behave = None
        await harness.notify(webhook("restarted", url, timeout_s=60))
        await receiver.until(2)
    assert [request.id for request in receiver.received] == [fact, fact]


async def test_what_happened_while_no_notifier_ran_is_delivered_when_one_does(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await (await harness.notify(webhook("away", url))).end()
        facts = [await harness.job(f"away-{i}") for i in range(3)]
        await harness.notify(webhook("away", url))
        await receiver.until(3)
    assert [request.id for request in receiver.received] == facts


async def test_a_new_webhook_is_not_told_the_past(harness: WebhookHarness) -> None:
    receiver = Receiver()
    await harness.job("past")
    async with served(receiver) as url:
        await harness.notify(webhook("newcomer", url))
        fact = await harness.job("present")
        await receiver.until(1)
    assert [request.id for request in receiver.received] == [fact]


async def test_a_webhook_that_asks_for_more_events_keeps_its_place(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await (await harness.notify(webhook("grows", url))).end()
        missed = await harness.job("missed")
        await harness.notify(webhook("grows", url, events=["job-ended", "scale-chosen"], timeout_s=3))
        await receiver.until(1)
        await harness.say("scaler", "scale", "s2", "node-add-chosen", ScaleChosen(case=2, group="flex"))
        await receiver.until(2)
    assert receiver.received[0].id == missed
    assert receiver.received[1].message["type"] == "scale-chosen"


async def test_two_replicas_share_the_work_and_tell_each_event_once(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await harness.notify(webhook("shared", url))
        await harness.notify(webhook("shared", url))
        facts = [await harness.job(f"shared-{i}") for i in range(10)]
        await receiver.until(10)
        await until_async(lambda: _is_done(harness, "shared"))
    assert [request.id for request in receiver.received] == facts


async def _is_done(harness: WebhookHarness, name: str) -> bool:
    return await harness.waiting(name) == 0


async def test_neither_key_nor_address_nor_answer_is_logged(
    harness: WebhookHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="muster")
    receiver = Receiver(answering(500, 410))
    kept, address = harness.server.directory / "quiet.secret", harness.server.directory / "quiet.url"
    kept.write_text(SECRET)
    async with served(receiver) as url:
        address.write_text(f"{url}/hidden-path")
        quiet = webhook("quiet", url, secret=str(kept)).model_copy(update={"url": None, "url_file": address})
        await harness.notify(quiet)
        await harness.job("quiet")
        await receiver.until(2)
        await until(lambda: "answered 410" in caplog.text)
    assert "attempt 1: the receiver answered 500" in caplog.text
    for secret in (SECRET, "hidden-path", url):
        assert secret not in caplog.text
