"""A job's way through the harness as a collector sees it: spans, metrics and log lines of one job have one trace id."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from kit.observe.otlp_sink import OtlpSink, otlp_sink
from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until, until_async
from muster.bus.limits import SPANS_ONE_IN
from muster.bus.tracing import ENDPOINT_VARIABLE
from muster.schemas.ids import span_id, traceparent

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

RUNS, FAILS, SHOUTS, UNHEARD = (f"{SPANS_ONE_IN * number:032x}" for number in (12_345, 54_321, 67_890, 98_765))
"""Traces of those that are kept whole, one for each test."""
PARENT = "00000000000000aa"
FAILING = {"labels": {"sim.muster.dev/run-s": "0.1", "sim.muster.dev/exit-code": "3"}}
OFTEN_MS = "100"
STOP_S_MAX = 8.0


@dataclass(frozen=True)
class Heard:
    """A stack, and the collector that it tells everything."""

    harness: Harness
    sink: OtlpSink


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def record_attempt(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Heard]:
    with otlp_sink() as sink, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENDPOINT_VARIABLE, sink.url)
        for variable in ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"):
            patch.setenv(variable, OFTEN_MS)
        async with open_harness(options(Path(tmp_path_factory.mktemp("harness")))) as harness:
            yield Heard(harness, sink)


async def failed_job(harness: Harness, trace: str) -> str:
    """The id of a job that failed, in this trace."""
    submitted = await harness.muster.submit(job("ill", **FAILING), traceparent=traceparent(trace, PARENT))
    await harness.ended([submitted.id])
    return submitted.id


async def test_one_job_is_one_trace_over_every_service_that_said_something_of_it(record_attempt: Heard) -> None:
    harness, sink = record_attempt.harness, record_attempt.sink
    submitted = await harness.muster.submit(job("traced"), traceparent=traceparent(RUNS, PARENT))
    await harness.ended([submitted.id])
    told = [*await harness.federation_facts(), *await harness.facts()]
    facts = {fact.id: fact for fact in told if fact.subject_id == submitted.id and fact.name != "job-ended"}
    wanted = {span_id(fact_id) for fact_id in facts}
    await until(lambda: wanted <= {span.span for span in sink.spans})
    spans = {span.span: span for span in sink.spans if span.trace == RUNS}
    assert {span.service for span in spans.values()} >= {
        "muster-gateway", "muster-federation", "muster-scheduler", "muster-agent",
    }  # fmt: skip
    for fact in facts.values():
        span, causes = spans[span_id(fact.id)], [span_id(cause) for cause in fact.causes]
        assert span.name == f"create muster.{{scope}}.{fact.writer}.{fact.kind}.{{id}}.{fact.name}"
        assert list(span.links) == causes
        assert span.parent == (causes[0] if len(causes) == 1 else "")
        assert 0 < span.start_ns <= span.end_ns
    assert not [span.name for span in sink.spans if submitted.id in span.name], "names are templates"


async def test_a_collector_gets_spans_metrics_and_lines_with_one_trace_id(record_attempt: Heard) -> None:
    sink = record_attempt.sink
    job_id = await failed_job(record_attempt.harness, FAILS)
    lead = {"muster_submit_seconds", "muster_http_request_seconds", "muster_submit_to_placed_seconds"}
    await until(lambda: any(line.trace == FAILS for line in sink.lines))
    await until(lambda: any(span.trace == FAILS and span.name.endswith(".failed") for span in sink.spans))
    await until(lambda: {point.name for point in sink.points if FAILS in point.traces} >= lead)
    (line,) = [line for line in sink.lines if line.trace == FAILS]
    assert job_id in line.message
    assert line.service == "muster-scheduler"
    assert line.span in {span.span for span in sink.spans if span.name.endswith("job.{id}.failed")}
    assert {point.name for point in sink.points if FAILS in point.traces} == lead
    assert {"muster_leading", "muster_http_requests_total"} <= {point.name for point in sink.points}


async def test_every_line_of_a_stack_is_json_and_those_of_a_job_have_its_trace(record_attempt: Heard) -> None:
    job_id = await failed_job(record_attempt.harness, SHOUTS)
    log = record_attempt.harness.settings.state_dir / "logs" / "all.log"

    async def is_told() -> bool:
        return job_id in log.read_text()

    await until_async(is_told)
    whole, _, _ = log.read_text().rpartition("\n")  # the line behind may be half written
    lines = [json.loads(line) for line in whole.splitlines()]
    assert all({"time", "level", "logger", "message", "service"} <= line.keys() for line in lines)
    (told,) = [line for line in lines if job_id in line["message"]]
    assert (told["service"], told["trace_id"]) == ("scheduler", SHOUTS)
    assert "failed with exit code 3" in told["message"]


async def test_a_collector_that_is_away_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv(ENDPOINT_VARIABLE, sink.url)  # nobody listens there in a moment
    async with open_harness(options(tmp_path)) as harness:
        submitted = await harness.muster.submit(job("untraced"), traceparent=traceparent(UNHEARD, PARENT))
        await harness.ended([submitted.id])
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < STOP_S_MAX
