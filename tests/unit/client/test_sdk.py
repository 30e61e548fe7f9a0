"""The SDK against the real application with a harness in memory."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from kit.client import JOB, QUICK, known, sdk
from kit.http.gateway import FakeHarness, fact, lost_log
from muster.client import (
    ConflictError,
    JobSpec,
    Muster,
    NotAllowedError,
    NotFoundError,
    QueueSpec,
    QueueView,
    RefusedError,
    ReservationSpec,
    ReservationView,
    Role,
    StateDirError,
    TaskGroup,
    TokenRecord,
    UnavailableError,
    UnreachableError,
)
from muster.gateway.api import changes
from muster.gateway.feed import FedFact
from muster.schemas.facts.job import JobQueued
from muster.schemas.facts.job_requests import Ask
from muster.schemas.job import Phase
from muster.schemas.views import JobView

SPEC = JobSpec(name="train", team="blue", task_groups=(TaskGroup(gpus=1),))


async def test_submit_get_cancel_and_why() -> None:
    harness = FakeHarness()
    async with sdk(harness.app) as muster:
        job = await muster.submit(SPEC, idempotency_key="k")
        assert (await muster.submit(SPEC, idempotency_key="k")).id == job.id
        harness.view.rows[job.id] = harness.scheduler.known[job.id] = job
        assert (await muster.get(job.id)).name == "train"
        assert (await muster.cancel(job.id, reason="enough")).id == job.id
        assert (await muster.why(job.id)).position == 3
        assert (await muster.dry_run(SPEC)).placed
    assert harness.log.cancels[0][1].reason == "enough"


async def test_hold_release_and_prioritise() -> None:
    harness = FakeHarness()
    known(harness, Phase.QUEUED)
    async with sdk(harness.app) as muster:
        assert (await muster.hold(JOB, reason="wrong data")).id == JOB
        assert (await muster.release(JOB)).id == JOB
        assert (await muster.prioritise(JOB, 90, reason="urgent")).id == JOB
    held, released, moved = (asked for _, asked in harness.log.of_jobs.values())
    assert (held.ask, held.payload.reason, released.ask) == (Ask.HOLD, "wrong data", Ask.RELEASE)
    assert (moved.payload.priority, moved.payload.reason) == (90, "urgent")


async def test_a_running_job_is_not_held_and_the_error_says_what_to_do() -> None:
    harness = FakeHarness()
    known(harness, Phase.RUNNING)
    async with sdk(harness.app) as muster:
        with pytest.raises(ConflictError, match=r"only a job that waits can be held.*Cancel it"):
            await muster.hold(JOB)


async def test_lists_read_as_many_pages_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.client.client.PAGE_MAX", 2)
    harness = FakeHarness()
    for letter in "ABCDE":
        harness.view.rows[letter * 26] = JobView(
            id=letter * 26, name="x", team="blue", principal="p", queue="blue", phase=Phase.QUEUED
        )
    async with sdk(harness.app) as muster:
        assert len(await muster.list(team="blue", limit=4)) == 4
        assert len(await muster.list(limit=100)) == 5


async def test_errors_say_which_field_and_what_to_do() -> None:
    harness = FakeHarness()
    known(harness, Phase.FAILED)
    async with sdk(harness.app) as muster:
        with pytest.raises(RefusedError, match=r"task_groups.0.gpus: .* 9 GPUs.* Ask for less") as refused:
            await muster.submit(SPEC.model_copy(update={"task_groups": (TaskGroup(gpus=9),)}))
        assert refused.value.problem.status == 422
        with pytest.raises(NotFoundError):
            await muster.get("Z" * 26)
        with pytest.raises(ConflictError):
            await muster.cancel(JOB)
    async with sdk(harness.app, "eve") as muster:
        with pytest.raises(NotAllowedError):
            await muster.submit(SPEC)


async def test_a_submission_is_sent_again_with_the_same_key_while_the_log_is_away() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    keys: list[str] = []

    async def recovering(scope: Scope, receive: Receive, send: Send) -> None:
        keys.append(dict(scope["headers"])[b"idempotency-key"].decode())
        if len(keys) == 3:
            harness.log.fails = None
        await harness.app(scope, receive, send)

    async with sdk(recovering) as muster:
        await muster.submit(SPEC)
    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_an_answer_that_got_lost_does_not_make_a_second_job() -> None:
    harness = FakeHarness()

    answers = 0

    async def losing(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal answers
        answers += 1
        is_lost = answers == 1

        async def half(message: Message) -> None:
            if not (is_lost and message["type"] == "http.response.body"):
                await send(message)

        await harness.app(scope, receive, half)

    async with sdk(losing) as muster:
        await muster.submit(SPEC)
    assert answers == 2
    assert len(harness.log.jobs) == 1


async def test_an_odd_id_is_no_other_path() -> None:
    harness = FakeHarness()
    known(harness)
    async with sdk(harness.app) as muster:
        with pytest.raises(RefusedError):
            await muster.get(f"{JOB}/why?x=")


async def test_retries_are_bounded() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    async with sdk(harness.app) as muster:
        with pytest.raises(UnreachableError, match="nobody answers"):
            await muster.submit(SPEC)


async def test_a_service_that_is_away_is_told_apart_from_nobody() -> None:
    harness = FakeHarness()
    harness.composer.is_down = True
    async with sdk(harness.app) as muster:
        with pytest.raises(UnavailableError, match="the composer is down"):
            await muster.devices()


async def test_what_a_proxy_says_is_not_the_gateways_word() -> None:
    async with sdk(PlainTextResponse("bad gateway", status_code=502)) as muster:
        with pytest.raises(UnreachableError, match="bad gateway") as error:
            await muster.devices()
    assert not isinstance(error.value, UnavailableError)


class Streams:
    """Streams of facts that break: each answer is one list of (cursor, fact); cursors asked for are kept."""

    def __init__(self, *answers: list[tuple[str, str]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        (after,) = parse_qs(scope["query_string"].decode()).get("after", [""])
        self.asked.append(after)
        if not self.answers:
            await PlainTextResponse("gone", status_code=502)(scope, receive, send)
            return
        told = "".join(f"id: {cursor}\nevent: fact\ndata: {body}\n\n" for cursor, body in self.answers.pop(0))
        text = f"retry: 1\n\n: hello\n\n{told}id: x\nevent: fact\ndata: {{cut"
        await PlainTextResponse(text)(scope, receive, send)


def event(seq: int, name: str = "queued") -> tuple[str, str]:
    return f"LOG_atlas:{seq}", fact(seq, name).model_dump_json()


async def test_a_watch_goes_on_over_broken_streams_and_gives_each_fact_once() -> None:
    streams = Streams([event(1), event(2)], [event(2), event(3)], [event(4, "succeeded"), event(5)])
    async with sdk(streams) as muster:
        seen = [fact.seq async for fact in muster.watch(JOB)]
    assert seen == [1, 2, 3, 4]
    assert streams.asked == ["", "LOG_atlas:2", "LOG_atlas:3"]


async def test_a_watch_gives_up_after_bounded_attempts_without_progress() -> None:
    streams = Streams([event(1)])
    async with sdk(streams) as muster:
        with pytest.raises(UnreachableError):
            _ = [fact async for fact in muster.watch()]
    assert len(streams.asked) == 1 + QUICK.attempts - 1


async def test_a_watch_may_begin_after_what_is_known() -> None:
    streams = Streams([event(8, "succeeded")])
    async with sdk(streams) as muster:
        _ = [fact async for fact in muster.watch(JOB, after={"LOG_atlas": 7, "FED": 2})]
    assert streams.asked == ["FED:2,LOG_atlas:7"]


async def test_a_watch_may_begin_with_the_newest_and_misses_nothing_after_them() -> None:
    harness = FakeHarness()
    for seq in (1, 2, 3):
        harness.feed.tell(fact(seq), team="blue")
    harness.feed.tell(fact(4), team="red")
    newest = harness.feed.newest

    async def and_one_more(count: int) -> list[FedFact]:
        found = await newest(count)
        harness.feed.tell(fact(5), team="blue")
        return found

    harness.feed.newest = and_one_more  # type: ignore[method-assign] - a fact comes between looking and listening
    async with sdk(harness.app) as muster:
        facts = muster.watch(team="blue", newest=2)
        assert [(await anext(facts)).seq for _ in range(3)] == [2, 3, 5]
        harness.feed.tell(fact(6), team="red")
        harness.feed.tell(fact(7), team="blue")
        assert (await anext(facts)).seq == 7


async def test_a_watch_of_an_ended_job_ends_though_its_end_is_known() -> None:
    harness = FakeHarness()
    known(harness, Phase.SUCCEEDED)
    harness.view.facts[JOB] = [fact(1), fact(2, "succeeded")]
    async with sdk(harness.app) as muster:
        assert [fact.seq async for fact in muster.watch(JOB, after={"LOG_atlas": 1})] == [2]
        assert [fact.seq async for fact in muster.watch(JOB, after={"LOG_atlas": 2})] == []


async def test_facts_know_their_own_type() -> None:
    harness = FakeHarness()
    body = JobQueued(queue="blue", attempt=1).model_dump_json()
    harness.feed.tell(fact(1).model_copy(update={"body": body}))
    harness.feed.tell(fact(2, "invented-later"))
    async with sdk(harness.app) as muster:
        queued, unknown = await muster.events()
    assert queued.payload == JobQueued(queue="blue", attempt=1)
    assert unknown.payload is None


async def test_queues_nodes_tokens_and_me() -> None:
    harness = FakeHarness()
    async with sdk(harness.app, "root") as muster, asyncio.TaskGroup() as tasks:
        harness.view.queue_rows.append(harness.view.queue_rows[0].model_copy(update={"name": "new"}))
        await tasks.create_task(muster.set_queue(QueueSpec(name="new")))
        assert [queue.name for queue in await muster.queues()] == ["blue", "shut", "new"]
        assert [node.name for node in await muster.nodes()] == ["n1"]
        made = await muster.make_token(TokenRecord(principal="new", role=Role.VIEWER))
        assert made.id in [token.id for token in await muster.tokens()]
        await muster.revoke_token(made.id)
        assert (await muster.me()).role is Role.ADMIN


async def test_reservations_are_made_shown_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)
    harness = FakeHarness()
    spec = ReservationSpec(name="night", gpus=8, starts_at=1, duration_s=60)
    async with sdk(harness.app, "root") as muster:
        assert await muster.reserve(spec) is None, "it is only asked for"
        assert [one.spec for one in harness.log.reservations.values()] == [spec]
        with pytest.raises(NotFoundError, match="reservation"):
            await muster.end_reservation("night")
        harness.view.reservation_rows = [ReservationView(name="night", cluster="atlas", spec=spec)]
        assert [one.spec for one in await muster.reservations()] == [spec]
        monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
        booked = await muster.reserve(spec)
        assert booked is not None
        assert booked.active
        monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)
        await muster.end_reservation("night", reason="done")
    assert [(name, one.reason) for name, one in harness.log.reservation_ends] == [("night", "done")]


async def test_a_tree_of_queues_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)
    harness = FakeHarness()
    specs = [QueueSpec(name="org"), QueueSpec(name="red", parent="org", quota={"gpu_milli": 1000})]
    harness.view.queue_rows = [QueueView(name="org", cluster="atlas", spec=specs[0])]
    async with sdk(harness.app, "root") as muster:
        assert [queue.name for queue in await muster.set_queues(specs)] == ["org"]
    assert [one.spec for one in harness.log.queue_requests.values()] == specs


async def test_each_change_of_a_queue_is_a_request_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)
    harness = FakeHarness()
    async with sdk(harness.app, "root") as muster:
        for weight in (1, 2, 1):
            assert await muster.set_queue(QueueSpec(name="new", weight=weight)) is None
    assert [one.spec.weight for one in harness.log.queue_requests.values()] == [1, 2, 1]


async def test_a_state_directory_says_where_and_with_which_token(tmp_path: Path) -> None:
    with pytest.raises(StateDirError, match=r"endpoints\.json"):
        Muster.from_state_dir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "endpoints.json").write_text('{"http": "http://127.0.0.1:1"}')
    (tmp_path / "token").write_text("secret\n")
    async with Muster.from_state_dir(tmp_path, retry=QUICK) as muster:
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
            await muster.me()
