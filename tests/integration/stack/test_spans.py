"""A job's way through the house as a collector sees it."""

import time
from pathlib import Path

import pytest

from living_stack import job, open_house, options
from muster.bus.limits import SPANS_ONE_IN
from muster.bus.tracing import ENDPOINT_VARIABLE
from muster.schemas.ids import span_id, traceparent
from otlp_sink import otlp_sink
from waiting import until

pytestmark = [pytest.mark.connected]

TRACE = f"{SPANS_ONE_IN * 12_345:032x}"  # one of those traces that are kept whole
EXPORT_EVERY_MS = "100"
STOP_S_MAX = 8.0


async def test_one_job_is_one_trace_over_every_service_that_said_something_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv(ENDPOINT_VARIABLE, sink.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", EXPORT_EVERY_MS)
        async with open_house(options(tmp_path)) as house:
            submitted = await house.muster.submit(job("traced"), traceparent=traceparent(TRACE, "00000000000000aa"))
            await house.ended([submitted.id])
            told = [*await house.federation_facts(), *await house.facts()]
            facts = {fact.id: fact for fact in told if fact.subject_id == submitted.id and fact.name != "job-ended"}
            wanted = {span_id(fact_id) for fact_id in facts}
            await until(lambda: wanted <= {span.span for span in sink.spans})
    spans = {span.span: span for span in sink.spans if span.trace == TRACE}
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


async def test_a_collector_that_is_away_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv(ENDPOINT_VARIABLE, sink.url)  # nobody listens there in a moment
    async with open_house(options(tmp_path)) as house:
        submitted = await house.muster.submit(job("untraced"), traceparent=traceparent(TRACE, "00000000000000aa"))
        await house.ended([submitted.id])
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < STOP_S_MAX
