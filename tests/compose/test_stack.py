"""The stack of compose/compose.yaml, for real: a job from this machine, its trace, the metrics, kills without loss."""

import time
from collections.abc import Mapping
from typing import cast

import pytest

from compose.confinement import unconfined
from compose.figures import Figures
from compose.running import ONCE, Stack, ended, job, submitted
from kit.invariants import violations
from kit.waiting import until_async
from muster.core.instant import NS_PER_S
from muster.schemas.ids import span_id
from muster.schemas.job import Phase
from muster.schemas.subjects import FED_LOG

pytestmark = pytest.mark.timeout(3_000)

OBSERVED = {
    "gateway", "federation", "scheduler", "agent", "scaler", "composer", "projector", "notifier", "guard", "telemetry",
    "health", "upgrader",
}  # fmt: skip
TRACE_ID = "5eed0000000000000000000000c0ffee"
SPANS_S_MAX = 60.0


async def test_a_job_from_this_machine_is_placed_and_ends(stack: Stack, figures: Figures) -> None:
    await stack.first_queues()
    async with stack.muster() as muster:
        first = await submitted(muster, job("first"))
        view = await ended(muster, first.id)
    figures.say(f"up to the first job seen to have ended: {time.monotonic() - stack.began_s:.1f} s")
    assert view.phase is Phase.SUCCEEDED
    assert view.placed_at is not None
    assert view.ended_at is not None
    lived_s = (view.ended_at - view.placed_at) / NS_PER_S
    figures.say(f"up to the first job placed: {time.monotonic() - stack.began_s - lived_s:.1f} s")


def is_well(state: Mapping[str, object]) -> bool:
    """Return whether a container runs, and is healthy if it has a check. state: as the engine tells it."""
    health = cast("Mapping[str, object]", state.get("Health", {}))
    return state["Status"] == "running" and health.get("Status", "healthy") == "healthy"


async def test_every_container_is_well(stack: Stack) -> None:
    unwell: dict[str, object] = {}

    async def are_well() -> bool:
        containers = stack.project.containers()
        states = {name: cast("dict[str, object]", containers[name].attrs["State"]) for name in stack.lasting()}
        unwell.clear()
        unwell.update({name: state for name, state in states.items() if not is_well(state)})
        return not unwell

    try:
        await until_async(are_well, patience_s=120)
    except TimeoutError:
        raise AssertionError(f"not well after 120 s: {unwell}") from None
    restarts = {name: container.attrs["RestartCount"] for name, container in stack.project.containers().items()}
    assert restarts == dict.fromkeys(restarts, 0)
    ends = {name: stack.project.container(name).attrs["State"]["ExitCode"] for name in ONCE}
    assert ends == dict.fromkeys(ONCE, 0)


def test_every_container_is_confined_and_listens_on_this_machine_alone(stack: Stack) -> None:
    containers = stack.project.containers()
    assert {name: unconfined(container) for name, container in containers.items() if unconfined(container)} == {}


async def test_a_job_is_one_trace_from_the_request_to_its_end(stack: Stack) -> None:
    async with stack.muster() as muster:
        traced = await muster.submit(job("traced"), traceparent=f"00-{TRACE_ID}-00f067aa0ba902b7-01")
        await ended(muster, traced.id)
    facts = [fact for fact in await stack.facts() if fact.subject_id == traced.id and fact.writer != "federation"]
    facts += [fact for fact in await stack.facts(FED_LOG) if fact.subject_id == traced.id and fact.writer == "gateway"]
    assert {"submitted", "queued", "placed", "succeeded"} <= {fact.name for fact in facts}
    wanted = {span_id(fact.id) for fact in facts}
    seen: list[dict[str, object]] = []

    async def arrived() -> bool:
        seen[:] = await stack.trace(TRACE_ID)
        return wanted <= {span["spanID"] for span in seen}

    await until_async(arrived, patience_s=SPANS_S_MAX)
    assert {span["traceID"] for span in seen} == {TRACE_ID}
    assert {span["service"] for span in seen} >= {"muster-gateway", "muster-scheduler", "muster-agent"}
    ids = {span["spanID"] for span in seen} | {"00f067aa0ba902b7"}
    references = [one for span in seen for one in cast("list[dict[str, str]]", span["references"])]
    assert references
    assert {one["traceID"] for one in references} == {TRACE_ID}
    assert {one["spanID"] for one in references} <= ids


async def test_prometheus_reads_every_service(stack: Stack) -> None:
    async def all_up() -> bool:
        up = await stack.query('up{job=~"muster.*|otel-collector"} == 1')
        hosts = {str(cast("dict[str, str]", row["metric"])["instance"]).split(":")[0] for row in up}
        return hosts >= OBSERVED | {"otel-collector"}

    await until_async(all_up, patience_s=60)

    async def counted() -> bool:
        return bool(await stack.query('sum(muster_http_requests_total{method="POST"}) > 0'))

    await until_async(counted, patience_s=60)


async def test_whatever_is_killed_no_job_is_lost_or_runs_twice(stack: Stack, figures: Figures) -> None:
    accepted: list[str] = []
    began = time.monotonic()
    async with stack.muster() as muster:
        for service in stack.lasting():
            before = [await submitted(muster, job(f"before-{service}-{n}", run_s=2)) for n in range(4)]
            since = stack.kill(service)
            during = [await submitted(muster, job(f"during-{service}-{n}")) for n in range(4)]
            await stack.is_back(service, since=since)
            for view in (*before, *during):
                assert (await ended(muster, view.id)).phase is Phase.SUCCEEDED, f"{service} killed: {view.name}"
                accepted.append(view.id)
    figures.say(f"{len(stack.lasting())} containers killed, {len(accepted)} jobs: {time.monotonic() - began:.1f} s")
    assert violations(await stack.facts(), accepted=accepted, all_ended=True) == []


async def test_up_again_after_a_stop_finds_everything(stack: Stack) -> None:
    known = {fact.id for fact in await stack.facts()}
    stack.project.run("stop", "--timeout", "20")
    again = Stack.started(stack.project, stack.state_dir.with_name("again"))
    assert (again.state_dir / "token").read_text() == (stack.state_dir / "token").read_text()
    async with again.muster() as muster:
        view = await submitted(muster, job("after"))
        assert (await ended(muster, view.id)).phase is Phase.SUCCEEDED
    assert known <= {fact.id for fact in await again.facts()}
