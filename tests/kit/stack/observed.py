"""A whole stack that has done what metrics tell of, and what its pages show: for the checks of queries and alerts."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kit.kube.apiserver_page import cluster_page
from kit.stack.devices import DevicesHarness, open_devices_harness, settings_with
from kit.stack.living import job
from kit.waiting import until_async
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec
from muster_tools.demo.devices import play_all

LOOPBACK = "127.0.0.1"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
EXIT_CODE = "sim.muster.dev/exit-code"
RUN_S = "sim.muster.dev/run-s"

FAULTS = (
    ("xid-31", "xid", 31),
    ("xid-63", "xid", 63),
    ("ecc-sbe", "ecc-sbe", 3),
    ("xid-94", "xid", 94),
    ("xid-48", "xid", 48),
)
"""Code, and what is injected: the program's fault, two that are kept for trends, a degraded and a fatal one."""


@dataclass
class Exposed:
    """What pages expose: label names by sample name, and which values each label of a sample had."""

    labels: dict[str, set[str]] = field(default_factory=dict)
    values: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    traces: set[str] = field(default_factory=set)

    def read(self, page: str) -> None:
        """One page in OpenMetrics."""
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                self.labels.setdefault(sample.name, set()).update(sample.labels)
                for name, value in sample.labels.items():
                    self.values.setdefault((sample.name, name), set()).add(value)
                if sample.exemplar is not None:
                    self.traces.add(sample.exemplar.labels["trace_id"])


@dataclass
class ObservedStack:
    """The running stack, and the addresses of its pages: the services' and the gateway's API.

    more_pages: of what this stack has not, since its cluster is simulated.
    """

    there: DevicesHarness
    more_pages: tuple[str, ...] = ()

    @property
    def service_pages(self) -> tuple[str, ...]:
        return (*self.there.harness.stack.endpoints.metrics, *self.more_pages)

    @property
    def api_page(self) -> str:
        return f"{self.there.harness.stack.endpoints.http}/metrics"

    async def exposed(self) -> Exposed:
        """What all pages expose now."""
        exposed = Exposed()
        async with httpx.AsyncClient(headers={"Accept": OPENMETRICS}) as client:
            for url in (*self.service_pages, self.api_page):
                exposed.read((await client.get(url)).raise_for_status().text)
        return exposed


@contextmanager
def _receiver() -> Iterator[str]:
    """Takes webhooks and says yes; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A test's output is for its failures."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/events"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def observed_stack(state_dir: Path) -> AsyncIterator[ObservedStack]:
    """Started, with all services; devices came and went, jobs succeeded and failed, a webhook was told."""
    with _receiver() as url, cluster_page() as page:
        hook = {"name": "ops", "url": url, "events": ["job-ended", "scale-chosen"]}
        simulated = settings_with(simulation={"telemetry_interval_s": 1.0})
        settings = {
            **simulated,
            "telemetry": {"interval_s": 1.0},
            "federation": {"lost_after_s": 600.0},
            "preflight": {"simulated": {"check_s": 0.2, "action_s": 0.3}},
            "webhooks": [hook],
        }
        async with open_devices_harness(state_dir, settings) as there:
            played = await play_all(there.stage)
            assert {one.name: one.problem for one in played if one.problem} == {}
            await _hurt_a_gpu(there)
            bounded = QueueSpec(name="bounded", gpu_milli_quota=1_000, gpu_milli_limit=2_000)
            await there.harness.muster.set_queue(bounded)
            await _run_jobs(there)

            async def is_heard() -> bool:  # its gauges come with the first fact of its term
                return await there.harness.metric("muster_federation_cluster_heard_timestamp_seconds") > 0

            await until_async(is_heard)
            yield ObservedStack(there, (page,))


async def _run_jobs(there: DevicesHarness) -> None:
    """One that succeeds, one that fails, one that runs again and then fails; and a question about one."""
    harness = there.harness
    specs = [_job("well", exit_code=0), _job("ill", exit_code=3), _job("again", exit_code=4, retries=1)]
    submitted = [(await harness.muster.submit(spec)).id for spec in specs]
    await harness.muster.why(submitted[0])
    await harness.ended(submitted)

    async def is_told() -> bool:
        return await harness.metric("muster_webhook_deliveries_total", outcome="delivered") >= len(specs)

    await until_async(is_told)


async def _hurt_a_gpu(there: DevicesHarness) -> None:
    """A job holds a GPU; a fault of each class comes on it, it is mended, and the job holds one again."""
    harness = there.harness
    holder = await there.stage.submit("holder", gpus=1)

    async def is_measured() -> bool:
        return await harness.metric("muster_job_gpus", job_id=holder) > 0

    async def are_told() -> bool:
        seen = [await harness.metric("muster_health_faults_total", code=code) for code, _, _ in FAULTS]
        return all(seen) and await harness.metric("muster_health_owners_told_total") > 0

    async def is_well() -> bool:
        return await harness.metric("muster_health_illnesses_total") > 0

    await until_async(is_measured)
    (held,) = (await harness.muster.stats(holder)).devices
    async with httpx.AsyncClient(trust_env=False) as client:
        for _, fault, value in FAULTS:
            body = {"node": held.node, "gpu": held.index, "fault": fault, "value": value}
            url = f"http://{LOOPBACK}:{harness.stack.endpoints.ports['dcgm']}/_faults"
            (await client.post(url, json=body)).raise_for_status()
    for fact in (are_told, is_well, is_measured):
        await until_async(fact)


def _job(name: str, *, exit_code: int, **fields: object) -> JobSpec:
    return job(name, gpus=0, **{"labels": {RUN_S: "0.1", EXIT_CODE: str(exit_code)}, **fields})
