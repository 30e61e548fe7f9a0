"""Webhooks in tests: a receiver on loopback, and the notifier over a real nats-server whose logs a test writes."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from nats.aio.client import Client
from starlette.types import Receive, Scope, Send

from kit.servers import CLUSTER, DECLARATIONS, NatsServer
from kit.stack.hosted import Hosting
from kit.waiting import until, until_async
from muster.bus.decode import StoredMessage
from muster.bus.federation_settings import FederationSettings
from muster.bus.jsapi import message_at, stream_info
from muster.bus.process import Process
from muster.bus.requests import Outcome, append_single
from muster.bus.settings import Settings, WebhookSettings
from muster.bus.streams import bootstrap
from muster.core.fact import Draft
from muster.notifier import app
from muster.notifier.consumer import look
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobFinished, JobPlaced, JobRouted, JobRunning
from muster.schemas.ids import job_id, request_fact_id, traceparent
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup
from muster.schemas.subjects import DEAD_STREAM, FED_LOG, LogName, cluster_log

LOG = cluster_log(CLUSTER)
ALL_DECLARATIONS = (*DECLARATIONS, app.DECLARATION)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DASHBOARD = "https://muster.example"
TRACE = "ab" * 16
_NUMBERS = itertools.count()  # harnesses share a server, which knows the ids of facts for a while


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, object]:
        return cast("dict[str, object]", json.loads(self.body))

    @property
    def data(self) -> dict[str, object]:
        return cast("dict[str, object]", self.message["data"])

    @property
    def job_name(self) -> str:
        return str(self.data["name"])


Reply = tuple[int, dict[str, str]]
Behaviour = Callable[[Received], Awaitable[Reply]]


@dataclass
class Receiver:
    """An ASGI application that keeps what it is sent. behave: what it answers; by default 204."""

    behave: Behaviour | None = None
    received: list[Received] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        body, more = b"", True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request = Received(scope["path"], headers, body)
        self.received.append(request)
        status, answer_headers = (204, {}) if self.behave is None else await self.behave(request)
        pairs = [(name.encode(), value.encode()) for name, value in answer_headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def until(self, requests: int) -> list[Received]:
        """So many requests have come."""
        await until(lambda: len(self.received) >= requests)
        return self.received


def answering(*statuses: int) -> Behaviour:
    """These statuses one after the other, the last one for ever."""
    left = list(statuses)

    async def behave(_: Received) -> Reply:
        return (left.pop(0) if len(left) > 1 else left[0]), {}

    return behave


def webhook(name: str, url: str, **fields: object) -> WebhookSettings:
    """A webhook that retries quickly."""
    values = {"name": name, "url": url, "events": ["job-ended"], "backoff_s": 0.05, "backoff_s_max": 0.1, **fields}
    return WebhookSettings.model_validate(values)


def a_job(name: str, *, team: str = "physics", gpus: int = 2) -> Job:
    """A job as routed."""
    ident = job_id(team=team, principal="ada", idempotency_key=name)
    groups = (TaskGroup(gpus=gpus, cpu_milli=100, memory_mib=100),)
    return Job(
        id=ident,
        spec=JobSpec(name=name, team=team, task_groups=groups),
        principal="ada",
        idempotency_key=name,
        body_hash="",
        trace=traceparent(TRACE, "1" * 16),
    )


class WebhookHarness:
    """Streams on a real nats-server and a notifier over them. others: clusters beside the first; then of a centre."""

    def __init__(
        self, server: NatsServer, *, redis_url: str = "redis://127.0.0.1:1/0", others: Sequence[str] = ()
    ) -> None:
        self.server = server
        self.redis_url = redis_url
        self.others = tuple(others)
        self.hostings: list[Hosting] = []
        self.clients: dict[str, Client] = {}

    def settings(self, *webhooks: WebhookSettings) -> Settings:
        if not self.others:
            return self._settings(CLUSTER, webhooks)
        members = [{"name": name} for name in (CLUSTER, *self.others)]
        federation = FederationSettings.model_validate({"clusters": members})
        return self._settings(CLUSTER, webhooks).model_copy(update={"role": "centre", "federation": federation})

    def _settings(self, cluster: str, webhooks: Sequence[WebhookSettings] = ()) -> Settings:
        return Settings(
            state_dir=Path(self.server.directory),
            cluster=cluster,
            nats_url=self.server.url,
            redis_url=self.redis_url,
            credentials_dir=self.server.credentials_dir,
            dashboard_url=DASHBOARD,
            webhooks=tuple(webhooks),
        )

    async def prepare(self) -> None:
        """Make every log as one that is written here: what would copy a cluster's log is left out."""
        for cluster in (CLUSTER, *self.others):
            await bootstrap(await self.client("bootstrap"), self._settings(cluster))

    async def notify(self, *webhooks: WebhookSettings) -> Hosting:
        """A notifier for these webhooks, once every one of them has its place in the logs."""
        from contextlib import AsyncExitStack  # noqa: PLC0415

        settings, stack = self.settings(*webhooks), AsyncExitStack()
        hosting = Hosting(Process(app.services(settings), settings, stack), stack)
        self.hostings.append(hosting)
        await hosting.process.start()
        for place in app.places_of(settings):
            await until_async(lambda place=place: self.has_place(place.webhook, place.log))
        return hosting

    async def has_place(self, name: str, log: LogName = LOG) -> bool:
        return await look(await self.client("admin-tools"), log, name) is not None

    async def waiting(self, name: str, log: LogName = LOG) -> int:
        """Events that the webhook has not done with."""
        state = await look(await self.client("admin-tools"), log, name)
        assert state is not None
        return state.waiting

    async def client(self, user: str) -> Client:
        if user not in self.clients:
            self.clients[user] = await self.server.connect(user)
        return self.clients[user]

    async def say(
        self, writer: str, kind: str, subject_id: str, name: str, payload: Payload, *, log: LogName = LOG,
        cluster: str = "", trace: str = "",
    ) -> str:  # fmt: skip
        """Store one fact; its id."""
        fact_id = request_fact_id("webhooks", str(next(_NUMBERS)))
        draft = Draft(kind, subject_id, name, payload, trace=trace, cluster=cluster)
        client = await self.client("admin-tools")
        stored = await append_single(client, log, service=writer, draft=draft, fact_id=fact_id)
        assert stored.outcome is Outcome.STORED, stored
        return fact_id

    async def route(self, job: Job, *clusters: str) -> None:
        """The federation gives the job to these, one after the other, and their logs take it from there."""
        for number, cluster in enumerate(clusters, start=1):
            routed = JobRouted(job=job, cluster=cluster, assignment=number)
            await self.say("federation", "job", job.id, "routed", routed, log=FED_LOG, cluster=cluster, trace=job.trace)

    async def run_job(self, job: Job, *, nodes: Sequence[str] = ("n1",)) -> None:
        """Everything but its end."""
        slots = tuple(Slot(group=0, replica=i, node=node, devices=(0,)) for i, node in enumerate(nodes))
        await self.say("federation", "job", job.id, "routed", JobRouted(job=job, cluster=CLUSTER), trace=job.trace)
        await self.say("scheduler", "job", job.id, "placed", JobPlaced(attempt=1, slots=slots), trace=job.trace)
        await self.say("scheduler", "job", job.id, "running", JobRunning(attempt=1), trace=job.trace)

    async def end_job(self, job: Job, name: str = "succeeded", **finished: object) -> str:
        """Its terminal fact; that fact's id."""
        payload = JobFinished.model_validate({"attempt": 1, **finished})
        return await self.say("scheduler", "job", job.id, name, payload, trace=job.trace)

    async def job(self, name: str, *, team: str = "physics") -> str:
        """A whole job's life; the id of its end."""
        job = a_job(name, team=team)
        await self.run_job(job)
        return await self.end_job(job)

    async def dead(self) -> list[StoredMessage]:
        """All dead letters."""
        client = await self.client("admin-tools")
        info = await stream_info(client, DEAD_STREAM)
        assert info is not None
        found = [await message_at(client, DEAD_STREAM, seq) for seq in range(1, info.state.last_seq + 1)]
        return [message for message in found if message is not None]

    async def end(self) -> None:
        await asyncio.gather(*(hosting.end() for hosting in self.hostings))
        for client in self.clients.values():
            await client.close()


__all__ = ["FED_LOG", "LOG", "Receiver", "WebhookHarness", "a_job", "answering", "webhook"]
