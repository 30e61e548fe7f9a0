"""Spans: whose ids they have, what they link to, which are kept."""

from dataclasses import replace

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kit.log import a_fact
from kit.toys import JOINED
from muster.bus.limits import SPANS_ONE_IN
from muster.bus.otel import OtelTracing
from muster.bus.tracing import ENDPOINT_VARIABLE, NoTracing, make_tracing, sampled_one_in, sends
from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.schemas.ids import span_id, trace_id, traceparent

TRACE = trace_id("job")


def fact(name: str = "joined", *, causes: tuple[str, ...] = ("cause",), trace: str = TRACE) -> Fact:
    carried = traceparent(trace, span_id("own"))
    fact = a_fact("agent", "node", "secret-id", name, JOINED, seq=7, time=1000, trace=carried, fact_id="own")
    return replace(fact, causes=causes)


def spans_of(one_in: int, *facts: Fact, start_ns: int = 900) -> tuple:  # type: ignore[type-arg]
    exporter = InMemorySpanExporter()
    tracing = OtelTracing("agent", scope="atlas", template="muster.atlas.>", exporter=exporter, one_in=one_in)
    tracing.own_facts(facts, start_ns=start_ns)
    tracing.work("fold", start_ns=0, end_ns=1, messages=3)
    tracing.work("decide", start_ns=0, end_ns=NS_PER_S, messages=3)
    tracing.work("send", start_ns=0, end_ns=1, messages=3, error="refused")
    tracing.close()
    return exporter.get_finished_spans()


def test_without_a_collector_nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT_VARIABLE, raising=False)
    assert isinstance(make_tracing("agent", scope="atlas", template="muster.atlas.>"), NoTracing)


def test_a_facts_span_has_the_facts_ids_and_links_to_its_causes() -> None:
    span = spans_of(1, fact(causes=("one", "two")))[0]
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.context.span_id:016x}" == span_id("own")
    assert [f"{link.context.span_id:016x}" for link in span.links] == [span_id("one"), span_id("two")]
    assert span.parent is None


def test_of_a_single_cause_it_is_also_the_child() -> None:
    span = spans_of(1, fact())[0]
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == span_id("cause")


def test_names_are_templates_and_never_ids() -> None:
    for span in spans_of(1, fact()):
        assert "secret-id" not in span.name
    assert spans_of(1, fact())[0].name == "create muster.{scope}.agent.node.{id}.joined"


def test_slow_and_failed_spans_are_kept_of_the_rest_some() -> None:
    kept = [span.name.split()[0] for span in spans_of(10**9, fact(), fact("failed"))]
    assert kept == ["create", "decide", "send"]
    assert spans_of(10**9, fact(), start_ns=-NS_PER_S)[0].name.startswith("create")


def test_preset_ids_do_not_leak_into_the_next_span() -> None:
    spans = spans_of(1, fact(), fact())
    assert f"{spans[2].context.trace_id:032x}" != TRACE


@pytest.mark.parametrize(("said", "one_in"), [("", SPANS_ONE_IN), ("1", 1), ("0.25", 4), ("0.01", 100)])
def test_how_many_traces_are_sent_whole_is_set_by_the_standard_variable(said: str, one_in: int) -> None:
    assert sampled_one_in({"OTEL_TRACES_SAMPLER_ARG": said}) == one_in


@pytest.mark.parametrize("said", ["0", "-1", "2", "often"])
def test_what_is_no_ratio_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"OTEL_TRACES_SAMPLER_ARG|often"):
        sampled_one_in({"OTEL_TRACES_SAMPLER_ARG": said})


def test_signals_are_sent_where_a_collector_is_set_and_nobody_says_none() -> None:
    collector = {ENDPOINT_VARIABLE: "http://collector:4318"}
    assert sends("traces", collector)
    assert not sends("metrics", {**collector, "OTEL_METRICS_EXPORTER": "none"})
    assert not sends("logs", {})
