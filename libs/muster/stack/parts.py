"""A stack whose parts run apart, a container each: what every part is told. Pure.

Each part has a directory of its own with its settings and the credentials that it connects with, and nobody else's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.bus.access import (
    ADMIN_TOOLS,
    BOOTSTRAP,
    GATEWAY,
    GATEWAY_LIVE,
    GATEWAY_QUERY,
    LEASE,
    MONITOR,
    OPERATOR,
    READER,
)
from muster.bus.declaration import Declaration
from muster.bus.jwt import VIEW_SIGNER_FILE
from muster.bus.settings import Settings
from muster.schemas.access import Endpoints
from muster.stack.nats_server import loopback_origins
from muster.stack.ports import USUAL_PORTS
from muster.stack.simulators import DCGM_PORT, DCGM_SIMULATOR, FABRIC_PORT, SIMULATOR, located, with_exporters

KEYS, NATS, REDIS, BUS, CLI, HOST, GRAFANA = "keys", "nats", "redis", "bus", "cli", "host", "grafana"
TOGETHER = "together"
"""Parts that are no services. keys: read by who makes the others alone. bus: makes the streams. cli, host: the
admin's, within the stack's network and outside. grafana: the password of its admin. together: for one process that
hosts all services of a cell (`muster serve all`)."""

METRICS_PORT = 9100
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a container; what is published, and where, the container engine is told
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_USUAL_PORTS_OF = {"http": 80, "https": 443}
_READS_REDIS = frozenset({"gateway", "projector", "notifier"})
"""The notifier looks up there whose job it was whose first facts the log no longer holds."""
_LOGS_IN_AT_FABRICS = frozenset({"composer", SIMULATOR})


@dataclass(frozen=True, slots=True)
class Layout:
    """Where parts find each other, and where they are found from outside.

    home: where each part finds its own directory. flat: it holds files alone, no directories, as volumes made of a
    Kubernetes Secret do. nats, redis, gateway, fabric, exporters: host names within the stack's network. http_url,
    websocket_url, nats_url: from outside, as browsers and the admin's machine reach them.
    """

    http_url: str
    websocket_url: str
    nats_url: str
    home: Path = Path("/var/lib/muster")
    nats: str = "nats"
    redis: str = "redis"
    gateway: str = "gateway"
    fabric: str = SIMULATOR
    exporters: str = DCGM_SIMULATOR
    flat: bool = False

    @property
    def credentials(self) -> Path:
        """Where a part finds the credentials of its NATS users."""
        return self.home if self.flat else self.home / "creds"

    @property
    def keys(self) -> Path:
        """Where a part finds what else it logs in with."""
        return self.home if self.flat else self.home / KEYS

    @property
    def origins(self) -> tuple[str, ...]:
        """Pages that may use the WebSocket: the dashboard's, under each name of this machine if it is published on it.

        Raises ValueError if `http_url` is no URL with a host.
        """
        url = urlsplit(self.http_url)
        if url.scheme not in _USUAL_PORTS_OF or not url.hostname:
            raise ValueError(f"http_url: {self.http_url!r} is no address of a web page: write http://HOST:PORT")
        if url.hostname in _LOOPBACK_NAMES:
            return loopback_origins(url.port or _USUAL_PORTS_OF[url.scheme], scheme=url.scheme)
        return (f"{url.scheme}://{url.netloc}",)


@dataclass(frozen=True, slots=True)
class Part:
    """One part. users: whose credentials it holds. files: others that it holds, by name in the directory of keys.

    has_token: it holds the admin's API token.
    """

    name: str
    settings: Settings | None = None
    endpoints: Endpoints | None = None
    users: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    has_token: bool = False


def placed(settings: Settings, layout: Layout) -> Settings:
    """The settings of the whole stack: where each part listens within its network. Redis' password is not in them."""
    at = settings.model_copy(
        update={
            "state_dir": layout.home,
            "credentials_dir": layout.credentials,
            "nats_url": f"nats://{layout.nats}:{USUAL_PORTS['nats']}",
            "redis_url": _redis_url(layout, password=""),
            "http_host": EVERYWHERE,
            "http_port": USUAL_PORTS["http"],
            "metrics_port": METRICS_PORT,
            "websocket_url": layout.websocket_url,
            "dashboard_url": layout.http_url,
        }
    )
    at = with_exporters(at, port=USUAL_PORTS[DCGM_PORT], host=layout.exporters)
    return located(at, port=USUAL_PORTS[FABRIC_PORT], credentials_dir=layout.keys, host=layout.fabric)


def parts(
    declarations: Iterable[Declaration], settings: Settings, layout: Layout, *, redis_password: str
) -> tuple[Part, ...]:
    """Every part with settings. settings: `placed`."""
    declared = tuple(declarations)
    told = settings.model_copy(update={"redis_url": _redis_url(layout, password=redis_password)})
    logins = tuple(
        fabric.credentials.name
        for fabric in settings.fabrics
        if fabric.simulated is not None and fabric.credentials is not None
    )
    services = (
        Part(
            declaration.service,
            settings=told if declaration.service in _READS_REDIS else settings,
            users=users_of(declaration),
            files=(
                *((VIEW_SIGNER_FILE,) if declaration.service == GATEWAY else ()),
                *(logins if declaration.service in _LOGS_IN_AT_FABRICS else ()),
            ),
        )
        for declaration in declared
    )
    inside = f"{'https' if settings.tls.is_on else 'http'}://{layout.gateway}:{USUAL_PORTS['http']}"
    for_commands = Endpoints(http=inside, ca_file=str(settings.tls.ca_file or ""))
    at_exporters = Endpoints(http=inside, ports={DCGM_PORT: USUAL_PORTS[DCGM_PORT]})
    at_fabric = Endpoints(http=inside, ports={FABRIC_PORT: USUAL_PORTS[FABRIC_PORT]})
    admin = (OPERATOR, ADMIN_TOOLS)
    everybody = tuple(dict.fromkeys(user for one in declared for user in users_of(one)))
    together = Part(TOGETHER, settings=settings, users=everybody, files=logins)
    outside = settings.model_copy(update={"nats_url": layout.nats_url})
    return (
        *services,
        *((together,) if settings.role == "cell" else ()),
        Part(SIMULATOR, settings=settings, endpoints=at_fabric, files=logins),
        Part(DCGM_SIMULATOR, settings=settings, endpoints=at_exporters, users=(READER,)),
        Part(BUS, settings=settings, users=(BOOTSTRAP,), has_token=True),
        Part(CLI, settings=settings, endpoints=for_commands, users=admin, has_token=True),
        Part(HOST, settings=outside, endpoints=_outside(layout), users=admin, has_token=True),
    )


def users_of(declaration: Declaration) -> tuple[str, ...]:
    """The NATS users that a service connects as: its own, and what whoever folds logs needs beside it."""
    folding = (READER, MONITOR, LEASE) if declaration.folds else ()
    asking = (GATEWAY_QUERY, GATEWAY_LIVE) if declaration.service == GATEWAY else ()
    return (declaration.service, *folding, *asking)


def _outside(layout: Layout) -> Endpoints:
    return Endpoints(http=layout.http_url, nats=layout.nats_url, websocket=layout.websocket_url)


def _redis_url(layout: Layout, *, password: str) -> str:
    login = f":{password}@" if password else ""
    return f"redis://{login}{layout.redis}:{USUAL_PORTS['redis']}/0"
