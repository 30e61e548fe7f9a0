"""Wiring only: connections, what follows them in the background, the HTTP server."""

import asyncio
import socket
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


class Gateway:
    """A service without a core: any number of replicas may run."""

    declaration = DECLARATION

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Serve until cancelled; a background task that fails ends the service. The bus connections are the host's."""
        client = await connect("gateway")
        asking, closing = await connect(GATEWAY_QUERY), await connect(GATEWAY_LIVE)
        redis = Redis.from_url(
            settings.redis_url,
            socket_timeout=REDIS_TIMEOUT_S,
            socket_connect_timeout=REDIS_TIMEOUT_S,
            max_connections=REDIS_CONNECTIONS_MAX,
        )
        listening = Redis.from_url(
            settings.redis_url, socket_timeout=FEED_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        )
        time = SystemTime()
        logs = {name: cluster_log(name) for name in first_named(settings)}
        models = {name: read_model(log) for name, log in logs.items()}
        fed = read_model(FED_LOG)
        tokens = NatsTokens(client)
        tracing = make_tracing("gateway", scope=FED_LOG.scope, template=FED_LOG.subjects)
        log = NatsRequestLog(client, time=time, tracing=tracing)
        schedulers, scheduler = nats_schedulers(tuple(models), asking, asked_as=settings.cluster)
        has_others = len(models) > 1
        cells = {
            name: nats_cell(
                name, RedisView(redis, clusters=(model,), fed=fed, has_others=has_others), schedulers[name], asking
            )
            for name, model in models.items()
        }
        first = cells[settings.cluster]
        view = RedisView(redis, clusters=tuple(models.values()), fed=fed)
        catalogue = CatalogueCache(view=view, scheduler=scheduler, time=time, to_come=shapes_to_come(settings.scaling))
        feed = Feed(listening, {log_name: read_model(log_name) for log_name in (*logs.values(), FED_LOG)})
        metrics = Metrics()
        certificate = Certificate(settings.tls) if settings.tls.is_on else None
        vouching = AsyncExitStack()
        identities = await opened_identities(settings.identity, vouching, time=time, metrics=metrics)
        credentials = credentials_of(settings, closing, time=time, metrics=metrics)
        snapshots = Snapshots(redis, clusters=models, fed=fed, time=time)
        context = AppContext(
            metrics=metrics,
            identities=identities,
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
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(tokens.watch(), name="watch-tokens")
                tasks.create_task(catalogue.keep_fresh(), name="keep-catalogue-fresh")
                tasks.create_task(context.leadership.watch(), name="watch-leaders")
                tasks.create_task(feed.run(), name="feed")
                tasks.create_task(credentials.ends.run(), name="end-live-connections")
                tasks.create_task(serve_http(context, settings, certificate), name="http")
                if certificate is not None:
                    tasks.create_task(certificate.keep_fresh(), name="keep-certificate-fresh")
                if settings.kubernetes is not None or settings.role == "centre":
                    for name, log_name in logs.items():
                        wishes = Workloads(client, log_name, context, authority_of(settings, name))
                        tasks.create_task(wishes.run(), name=f"workloads of {name}")
        finally:
            await vouching.aclose()
            await asyncio.to_thread(tracing.close)
            await redis.aclose()
            await listening.aclose()


def first_named(settings: Settings) -> tuple[str, ...]:
    """All clusters, the one first that is asked where a request names none: dashboards take it for that."""
    return tuple(sorted(settings.clusters, key=lambda name: name != settings.cluster))


def _deciding(settings: Settings, scheduler: Scheduler, first: Cell) -> dict[str, AskLeader]:
    """Questions to those without whom no job goes on. A centre's cells may be cut off, and it serves all the same."""

    async def federation() -> object:
        return await first.leaders.ask(FEDERATION, "federation", AskFederation(), FederationView)

    if settings.role == "centre":
        return {FEDERATION: federation}
    return {"scheduler": scheduler.cluster, FEDERATION: federation}


def credentials_of(settings: Settings, closing: Client, *, time: SystemTime, metrics: Metrics) -> Credentials:
    """Return what gives dashboards their users. closing: a connection as `gateway-live`."""
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
    """One gateway."""
    return (Gateway(),)
