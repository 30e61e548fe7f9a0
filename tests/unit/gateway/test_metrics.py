"""What the gateway tells of its requests: counts, durations, the job's trace, and what failed."""

import logging
from collections.abc import Iterable

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kit.clocks import FakeTime
from muster.gateway.api import health
from muster.gateway.api.dependencies import app_context
from muster.gateway.metrics import FAILURES_TOLD_PER_S, Counting, Metrics, is_about

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Page:
    """An application with a few routes, counted, and its metrics."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.time = FakeTime()
        app = FastAPI()

        @app.get("/v1/jobs/{job_id}")
        async def look(request: Request, job_id: str) -> Response:
            is_about(request.scope, f"00-{TRACE}-{SPAN}-01")
            self.time.advance(0.2)
            return Response(status_code=503 if job_id == "broken" else 200)

        async def context() -> Page:
            return self

        app.include_router(health.router)
        app.dependency_overrides[app_context] = context
        app.add_middleware(Counting, metrics=self.metrics, time=self.time)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")

    async def ask(self, path: str, *, method: str = "GET") -> None:
        await self._client.request(method, path)

    async def shown(self, *, accept: str) -> str:
        return (await self._client.get("/metrics", headers={"Accept": accept})).text

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def samples(self) -> Iterable[Sample]:
        return [sample for family in self.metrics.registry.collect() for sample in family.samples]


async def test_requests_are_counted_and_timed_by_the_routes_template() -> None:
    page = Page()
    await page.ask("/v1/jobs/one")
    await page.ask("/v1/jobs/two")
    route = {"route": "/v1/jobs/{job_id}", "method": "GET"}
    assert page.value("muster_http_requests_total", **route, status="200") == 2
    assert page.value("muster_http_request_seconds_bucket", **route, le="0.1") == 0
    assert page.value("muster_http_request_seconds_bucket", **route, le="0.25") == 2
    assert page.value("muster_http_requests_in_flight") == 0


async def test_neither_paths_nor_methods_as_sent_become_labels() -> None:
    page = Page()
    await page.ask("/no/such/page")
    await page.ask("/v1/jobs/one", method="BREW")
    labels = {(s.labels["route"], s.labels["method"]) for s in page.samples() if s.name == "muster_http_requests_total"}
    assert labels == {("unknown", "GET"), ("/v1/jobs/{job_id}", "other")}


async def test_a_duration_leads_to_the_trace_of_the_job() -> None:
    page = Page()
    await page.ask("/v1/jobs/one")
    exemplars = [sample.exemplar.labels for sample in page.samples() if sample.exemplar]
    assert exemplars == [{"trace_id": TRACE, "span_id": SPAN}]


async def test_what_fails_is_told_with_the_trace_and_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    page = Page()
    page.time.advance(5.0)
    with caplog.at_level(logging.WARNING, logger="muster.gateway"):
        for _ in range(3 * FAILURES_TOLD_PER_S):
            await page.ask("/v1/jobs/broken")
    told = [record for record in caplog.records if record.name == "muster.gateway.metrics"]
    seconds = 3 * FAILURES_TOLD_PER_S * 0.2
    assert 0 < len(told) <= FAILURES_TOLD_PER_S * seconds
    assert told[0].getMessage() == "GET /v1/jobs/{job_id} was answered 503 after 0.200 s"
    assert (told[0].trace_id, told[0].span_id) == (TRACE, SPAN)  # type: ignore[attr-defined]


async def test_the_page_has_exemplars_for_who_accepts_openmetrics() -> None:
    page = Page()
    await page.ask("/v1/jobs/one")
    openmetrics = await page.shown(accept="application/openmetrics-text; version=1.0.0")
    assert TRACE in openmetrics
    assert list(text_string_to_metric_families(openmetrics))
    assert TRACE not in await page.shown(accept="text/plain")
