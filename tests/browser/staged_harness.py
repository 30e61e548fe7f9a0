"""A harness on a stage for pages of the dashboard: answers that a test gives, a real nats-server that it publishes to.

What a page shows of rare things (a choice of the scaler, a queue that lends, a gateway that refuses, 25,000 live jobs)
is then a matter of saying so, not of waiting for it.
"""

import asyncio
import base64
import json
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nats
import nkeys
from nats.aio.client import Client
from playwright.async_api import Browser, ConsoleMessage, ViewportSize
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import muster.gateway
from browser.dashboards import DESKTOP, PATIENCE_MS, Dashboard, Theme
from kit.loopback import served
from kit.waiting import until_async
from muster.gateway.problems import RETRY_AFTER_S
from muster.schemas.access import Role, TokenRecord
from muster.schemas.live import LiveCredential, LiveSlice, LiveTelemetry, Snapshot
from muster.schemas.telemetry import OutputLines
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView
from muster.stack.nats_server import NatsConfig, nats_binary, render
from muster.stack.ports import free_port

STATIC = Path(str(muster.gateway.__path__[0])) / "static"
CLUSTER = "atlas"
CREDENTIAL_S = 900
PROBLEM = "application/problem+json"

Json = dict[str, object]


@dataclass
class Stage:
    """What the harness knows. answers: by path, an answer's body, or a problem if it has a `status` of 400 and more.

    others: further clusters, whose services answer to `path?cluster=NAME`. posted: what pages asked for, as
    `METHOD path?query` with the body. refused: answers that were problems.
    """

    me: TokenRecord = field(
        default_factory=lambda: TokenRecord(principal="ada", role=Role.SUBMITTER, teams=("physics",))
    )
    jobs: dict[str, JobView] = field(default_factory=dict)
    nodes: tuple[NodeView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    telemetry: dict[str, tuple[tuple[float, float, int, float] | None, ...]] = field(default_factory=dict)
    answers: dict[str, BaseModel | Json] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    posted: list[tuple[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    seq: int = 1

    def snapshot(self) -> Snapshot:
        """Everything that has not ended."""
        return Snapshot(
            seqs={name: {"public": self.seq, "*": self.seq} for name in (CLUSTER, *self.others)},
            at=time.time_ns(),
            jobs=tuple(job for job in self.jobs.values() if not job.phase.is_terminal),
            nodes=self.nodes,
            queues=self.queues,
            reservations=self.reservations,
            telemetry=self.telemetry,
        )


class StagedHarness:
    """A stage with its doors open. url: of the dashboard."""

    def __init__(self, stage: Stage, url: str, connection: Client) -> None:
        self.stage = stage
        self.url = url
        self._connection = connection

    async def change(self, jobs: Iterable[JobView] = (), **more: object) -> None:
        """Publish rows as the projector would, and know them from then on. more: further fields of the slice."""
        changed = tuple(jobs)
        self.stage.jobs.update({job.id: job for job in changed})
        before, self.stage.seq = self.stage.seq, self.stage.seq + 1
        piece = LiveSlice.model_validate(
            {
                "cluster": CLUSTER, "audience": "public", "seq": self.stage.seq, "prev": before, "at": time.time_ns(),
                "jobs": changed, **more,
            }
        )  # fmt: skip
        await self._publish("slice", piece)

    async def pulse(self) -> None:
        """Say that nothing happened."""
        seq = self.stage.seq
        await self._publish("slice", LiveSlice(cluster=CLUSTER, audience="public", seq=seq, prev=seq))

    async def read(self, telemetry: LiveTelemetry) -> None:
        """Publish readings."""
        await self._publish("telemetry", telemetry)

    async def print_lines(self, job: JobView, *, at: int, lines: Sequence[str]) -> None:
        """Publish what the job's first replica printed."""
        body = OutputLines(job_id=job.id, attempt=1, group=0, replica=0, at=at, lines=tuple(lines))
        subject = f"view.{CLUSTER}.{job.team}.output.{job.id}"
        await self._connection.publish(subject, body.model_dump_json().encode())
        await self._connection.flush()

    async def _publish(self, what: str, body: BaseModel) -> None:
        encoded = body.model_dump_json().encode()
        await self._connection.publish(f"view.{CLUSTER}.public.{what}", encoded)
        if what == "slice":
            await self._connection.publish(f"view.{CLUSTER}.public.packed", zlib.compress(encoded))
        await self._connection.flush()


@asynccontextmanager
async def staged(stage: Stage) -> AsyncIterator[StagedHarness]:
    """Open the harness. Its servers end with the block."""
    with tempfile.TemporaryDirectory(prefix="muster-stage-") as directory:
        config = NatsConfig(
            port=free_port(), monitor_port=free_port(), websocket_port=free_port(), store_dir=Path(directory) / "store"
        )
        path = Path(directory) / "nats.conf"
        path.write_text(render(config))
        silent = asyncio.subprocess.DEVNULL
        server = await asyncio.create_subprocess_exec(nats_binary(), "-c", path, stdout=silent, stderr=silent)
        try:
            connection = await _connected(config.url)
            async with served(_app(stage, f"ws://127.0.0.1:{config.websocket_port}")) as url:
                yield StagedHarness(stage, url, connection)
            await connection.close()
        finally:
            server.kill()
            await server.wait()


@asynccontextmanager
async def looked_at(
    browser: Browser,
    harness: StagedHarness,
    path: str,
    *,
    theme: Theme = "light",
    viewport: ViewportSize = DESKTOP,
    ignored: Callable[[str], bool] = lambda _: False,
) -> AsyncIterator[Dashboard]:
    """A dashboard of the staged harness, live. ignored: as in `dashboard`."""
    context = await browser.new_context(viewport=viewport, color_scheme=theme)
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    shown = Dashboard(page, harness.url, "staged")

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("warning", "error") and not ignored(message.text):
            shown.complaints.append(f"{message.type}: {message.text}")

    page.on("console", heard)
    page.on("pageerror", lambda error: shown.complaints.append(f"thrown: {error}"))
    try:
        await shown.go(f"{path}#token=staged")
        await shown.live()
        yield shown
        assert not shown.complaints, "\n".join(shown.complaints)
    finally:
        await context.close()


async def _unheard(_error: Exception) -> None:
    """It is not there yet, and is asked again."""


async def _connected(url: str) -> Client:
    found: list[Client] = []

    async def there() -> bool:
        try:
            found.append(await nats.connect(url, allow_reconnect=False, connect_timeout=1, error_cb=_unheard))
        except (OSError, nats.errors.Error):
            return False
        return True

    await until_async(there)
    return found[-1]


def _app(stage: Stage, websocket_url: str) -> Starlette:
    def me(_request: Request) -> Response:
        return _model(stage.me)

    def snapshot(_request: Request) -> Response:
        return _model(stage.snapshot())

    def credential(_request: Request) -> Response:
        return _model(_credential(websocket_url), status=201)

    def jobs(request: Request) -> Response:
        return _page(stage, request.query_params)

    async def other(request: Request) -> Response:
        if request.method != "GET":
            asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            stage.posted.append((f"{request.method} {asked}", (await request.body()).decode()))
        return _other(stage, request)

    def page(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    return Starlette(
        routes=[
            Route("/v1/me", me),
            Route("/v1/snapshot", snapshot),
            Route("/v1/live/credential", credential, methods=["POST"]),
            Route("/v1/jobs", jobs),
            Route("/v1/{rest:path}", other, methods=["GET", "POST", "DELETE"]),
            Mount("/assets", StaticFiles(directory=STATIC / "assets", check_dir=False)),
            Route("/{rest:path}", page),
        ]
    )


def _other(stage: Stage, request: Request) -> Response:
    path = request.url.path
    cluster = request.query_params.get("cluster", "")
    path += f"?cluster={cluster}" if cluster else ""
    answer = stage.answers.get(f"{request.method} {path}", stage.answers.get(path) if request.method == "GET" else None)
    if isinstance(answer, BaseModel):
        return _model(answer)
    if answer is not None:
        status = int(str(answer.get("status", 200)))
        stage.refused += [path] if status >= 400 else []
        later = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
        return JSONResponse(answer, status_code=status, media_type=PROBLEM if status >= 400 else None, headers=later)
    parts = path.split("/")
    is_known = len(parts) >= 4 and parts[2] == "jobs" and parts[3] in stage.jobs
    if is_known and (len(parts) == 4 or request.method == "POST"):
        return _model(stage.jobs[parts[3]], status=200 if request.method == "GET" else 202)
    told = {"title": "Not Found", "status": 404, "detail": f"the stage has no {request.method} {path}"}
    return JSONResponse(told, status_code=404, media_type=PROBLEM)


def _page(stage: Stage, params: Mapping[str, str]) -> Response:
    """As the gateway pages jobs, newest first; the cursor counts the rows before it."""
    wanted = [
        job
        for job in sorted(stage.jobs.values(), key=lambda job: (-job.submitted_at, job.id))
        if (params.get("phase") in {None, job.phase.value})
        and (params.get("team") in {None, job.team})
        and (params.get("queue") in {None, job.queue})
    ]
    start, limit = int(params.get("cursor") or 0), int(params.get("limit", "100"))
    shown = [job.model_dump(mode="json") for job in wanted[start : start + limit]]
    following = str(start + limit) if start + limit < len(wanted) else ""
    return JSONResponse({"jobs": shown, "next_cursor": following})


def _credential(url: str) -> LiveCredential:
    """One that a server without accounts takes; pages read only how long it lasts."""
    now = int(time.time())
    claims = base64.urlsafe_b64encode(json.dumps({"iat": now, "exp": now + CREDENTIAL_S}).encode()).decode().rstrip("=")
    return LiveCredential(
        url=url,
        jwt=f"staged.{claims}.none",
        seed=nkeys.encode_seed(b"0" * 32, nkeys.PREFIX_BYTE_USER).decode(),
        inbox_prefix="_INBOX_staged",
        expires_at_s=now + CREDENTIAL_S,
        clusters=(CLUSTER,),
        audiences=("*",),
    )


def _model(value: BaseModel, *, status: int = 200) -> Response:
    return Response(value.model_dump_json(), status_code=status, media_type="application/json")
