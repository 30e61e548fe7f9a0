"""Wire the gateway: connections, background tasks, the HTTP server."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack

from nats.aio.client import Client
from redis.asyncio import Redis

from muster.bus.access import GATEWAY_LIVE, GATEWAY_QUERY
from muster.bus.clock import SystemTime
from muster.bus.metrics import also_exporting
from muster.bus.service import Connect
from muster.bus.settings import Settings
from muster.bus.tracing import make_tracing
from muster.checks.suites import policy_of
from muster.gateway.accept import shapes_to_come
from muster.gateway.catalogue import CatalogueCache
from muster.gateway.cells import Cell, nats_cell, nats_schedulers
from muster.gateway.context import AppContext
from muster.gateway.dashboard import STATIC, Site, headers
from muster.gateway.declaration import DECLARATION
from muster.gateway.feed import Feed
from muster.gateway.http import make_app
from muster.gateway.identity import opened_identities
from muster.gateway.leaders import AskLeader, Leadership
from muster.gateway.limits import Limits
from muster.gateway.live import Credentials, Live, view_signer
from muster.gateway.live_connections import LiveEnds, NatsLiveConnections, NoConnections
from muster.gateway.metrics import Metrics
from muster.gateway.ports import Scheduler
from muster.gateway.readings import Readings, RecentMessages
from muster.gateway.redis_view import RedisView
from muster.gateway.request_log import NatsRequestLog
from muster.gateway.server import serve
from muster.gateway.snapshot import Snapshots
from muster.gateway.tls import Certificate, Outcome
from muster.gateway.tokens import NatsTokens
from muster.gateway.views import Views
from muster.gateway.workloads import Workloads, authority_of
from muster.schemas.members import AskFederation, FederationView
from muster.schemas.readmodel import read_model
from muster.schemas.subjects import FED_LOG, cluster_log

REDIS_TIMEOUT_S = 1.0
FEED_TIMEOUT_S = 5.0  # longer than one blocking read
REDIS_CONNECTIONS_MAX = 32
HTTP_BACKLOG = 2_048
FEDERATION = "federation"
Background = dict[str, Callable[[], Coroutine[None, None, None]]]
"""Background tasks beside the HTTP server, by name."""


class Gateway:
    """The gateway service. It has no core: any number of replicas may run."""

    declaration = DECLARATION

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Serve until cancelled; a failed background task ends the service. The host owns the bus connections."""
        client = await connect("gateway")
        asking, closing = await connect(GATEWAY_QUERY), await connect(GATEWAY_LIVE)
        async with AsyncExitStack() as stack:
            context, background = await _wired(client, asking, closing, settings, stack)
            certificate = Certificate(settings.tls) if settings.tls.is_on else None
            async with asyncio.TaskGroup() as tasks:
                for name, follow in background.items():
                    tasks.create_task(follow(), name=name)
                tasks.create_task(serve_http(context, settings, certificate), name="http")
                if certificate is not None:
                    tasks.create_task(certificate.keep_fresh(), name="keep-certificate-fresh")


async def _wired(
    client: Client, asking: Client, closing: Client, settings: Settings, stack: AsyncExitStack
) -> tuple[AppContext, Background]:
    """Return the ports over these connections and over Redis, and the background tasks. `stack` closes them."""
    time, metrics, fed = SystemTime(), Metrics(), read_model(FED_LOG)
    redis, listening = _opened_redis(settings, stack)
    tracing = make_tracing("gateway", scope=FED_LOG.scope, template=FED_LOG.subjects)
    stack.push_async_callback(asyncio.to_thread, tracing.close)
    logs = {name: cluster_log(name) for name in first_named(settings)}
    models = {name: read_model(log) for name, log in logs.items()}
    schedulers, scheduler = nats_schedulers(tuple(models), asking, asked_as=settings.cluster)

    def cell(name: str) -> Cell:
        view = RedisView(redis, clusters=(models[name],), fed=fed, has_others=len(models) > 1)
        return nats_cell(name, view, schedulers[name], asking)

    cells = {name: cell(name) for name in models}
    first = cells[settings.cluster]
    log, tokens = NatsRequestLog(client, time=time, tracing=tracing), NatsTokens(client)
    view = RedisView(redis, clusters=tuple(models.values()), fed=fed)
    catalogue = CatalogueCache(view=view, scheduler=scheduler, time=time, to_come=shapes_to_come(settings.scaling))
    feed = Feed(listening, {log_name: read_model(log_name) for log_name in (*logs.values(), FED_LOG)})
    credentials = credentials_of(settings, closing, time=time, metrics=metrics)
    snapshots = Snapshots(redis, clusters=models, fed=fed, time=time)
    context = AppContext(
        metrics=metrics,
        identities=await opened_identities(settings.identity, stack, time=time, metrics=metrics),
        log=log,
        view=view,
        scheduler=scheduler,
        composer=first.composer,
        scaler=first.scaler,
        guard=first.guard,
        leaders=first.leaders,
        cluster=first.name,
        tokens=tokens,
        catalogue=catalogue,
        feed=feed,
        views=Views(view, scheduler, log, time),
        time=time,
        live=Live(snapshots, credentials, Readings(RecentMessages(client), settings.clusters, time)),
        site=Site(STATIC, headers(settings.websocket_url)),
        cells=cells,
        preflight=policy_of(settings.preflight),
        access=settings.access,
        leadership=Leadership(_deciding(settings, scheduler, first), time),
        limits=Limits(settings.access),
    )
    background: Background = {
        "watch-tokens": tokens.watch,
        "keep-catalogue-fresh": catalogue.keep_fresh,
        "watch-leaders": context.leadership.watch,
        "feed": feed.run,
        "end-live-connections": credentials.ends.run,
    }
    if settings.kubernetes is not None or settings.role == "centre":
        for name, log_name in logs.items():
            workloads = Workloads(client, log_name, context, authority_of(settings, name))
            background[f"workloads of {name}"] = workloads.run
    return context, background


def _opened_redis(settings: Settings, stack: AsyncExitStack) -> tuple[Redis, Redis]:
    """Return connections for reads, and one for blocking reads. `stack` closes them."""
    reads = Redis.from_url(
        settings.redis_url,
        socket_timeout=REDIS_TIMEOUT_S,
        socket_connect_timeout=REDIS_TIMEOUT_S,
        max_connections=REDIS_CONNECTIONS_MAX,
    )
    listening = Redis.from_url(
        settings.redis_url, socket_timeout=FEED_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
    )
    stack.push_async_callback(listening.aclose)
    stack.push_async_callback(reads.aclose)
    return reads, listening


def first_named(settings: Settings) -> tuple[str, ...]:
    """Return all clusters; the default cluster for requests, which dashboards expect first, comes first."""
    return tuple(sorted(settings.clusters, key=lambda name: name != settings.cluster))


def _deciding(settings: Settings, scheduler: Scheduler, first: Cell) -> dict[str, AskLeader]:
    """Return probes of the required leaders. A center requires none of its cells, which may be disconnected."""

    async def federation() -> object:
        return await first.leaders.ask(FEDERATION, "federation", AskFederation(), FederationView)

    if settings.role == "centre":
        return {FEDERATION: federation}
    return {"scheduler": scheduler.cluster, FEDERATION: federation}


def credentials_of(settings: Settings, closing: Client, *, time: SystemTime, metrics: Metrics) -> Credentials:
    """Return the creator of dashboard users. closing: a connection as `gateway-live`."""
    signer = view_signer(settings)
    connections = NatsLiveConnections(closing, account=signer.account) if signer is not None else NoConnections()
    return Credentials(
        settings.clusters,
        settings.websocket_url,
        signer,
        time,
        settings.http.live_credential_s,
        LiveEnds(connections, time=time, metrics=metrics),
        settings.access,
    )


async def serve_http(context: AppContext, settings: Settings, certificate: Certificate | None) -> None:
    """Answer requests until cancelled. certificate: None for plain HTTP."""
    listener = socket.create_server((settings.http_host, settings.http_port), backlog=HTTP_BACKLOG)

    def count_handshake(outcome: Outcome) -> None:
        context.metrics.handshakes.labels(outcome.value).inc()

    try:
        with also_exporting(context.metrics.registry):
            await serve(
                make_app(context), listener, settings.http, certificate=certificate, count_handshake=count_handshake
            )
    finally:
        listener.close()


def services(settings: Settings) -> tuple[Gateway, ...]:  # noqa: ARG001 - the same shape for every service
    """Return one gateway."""
    return (Gateway(),)
