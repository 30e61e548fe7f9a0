"""Traces, metrics and log lines of one job have one trace id, whoever asks where."""

import json
from pathlib import Path

import pytest

from living_stack import House, job, open_house, options
from muster.bus.limits import SPANS_ONE_IN
from muster.bus.tracing import ENDPOINT_VARIABLE
from muster.schemas.ids import traceparent
from otlp_sink import otlp_sink
from waiting import until, until_async

pytestmark = [pytest.mark.connected]

TRACE = f"{SPANS_ONE_IN * 54_321:032x}"  # one of those traces that are kept whole
FAILS = {"labels": {"sim.muster.dev/run-s": "0.1", "sim.muster.dev/exit-code": "3"}}
OFTEN_MS = "200"


async def failed_job(house: House) -> str:
    """The id of a job that failed, in the test's trace."""
    submitted = await house.muster.submit(job("ill", **FAILS), traceparent=traceparent(TRACE, "00000000000000aa"))
    await house.ended([submitted.id])
    return submitted.id


async def test_a_collector_gets_spans_metrics_and_lines_with_one_trace_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv(ENDPOINT_VARIABLE, sink.url)
        for variable in ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"):
            monkeypatch.setenv(variable, OFTEN_MS)
        async with open_house(options(tmp_path)) as house:
            job_id = await failed_job(house)
            await until(lambda: any(span.trace == TRACE for span in sink.spans))
            await until(lambda: any(line.trace == TRACE for line in sink.lines))
            await until(lambda: any(TRACE in point.traces for point in sink.points))
    (line,) = [line for line in sink.lines if line.trace == TRACE]
    assert job_id in line.message
    assert line.service == "muster-scheduler"
    assert line.span in {span.span for span in sink.spans if span.name.endswith("job.{id}.failed")}
    led = {point.name for point in sink.points if TRACE in point.traces}
    assert led == {"muster_submit_seconds", "muster_http_request_seconds", "muster_submit_to_placed_seconds"}
    assert {"muster_leading", "muster_http_requests_total"} <= {point.name for point in sink.points}


async def test_every_line_of_a_stack_is_json_and_those_of_a_job_have_its_trace(tmp_path: Path) -> None:
    async with open_house(options(tmp_path)) as house:
        job_id = await failed_job(house)
        log = house.settings.state_dir / "logs" / "all.log"

        async def is_told() -> bool:
            return job_id in log.read_text()

        await until_async(is_told)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message", "service"} <= line.keys() for line in lines)
    (told,) = [line for line in lines if job_id in line["message"]]
    assert (told["service"], told["trace_id"]) == ("scheduler", TRACE)
    assert "failed with exit code 3" in told["message"]
