"""A stack whose parts run in separate containers: the configuration of every part. Pure.

Each part has its own directory with its settings and only the credentials that it connects with.
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
"""Parts that are not services. keys: read only to create the other parts. bus: creates the streams. cli, host: the
admin's files, within the stack's network and outside. grafana: the password of its admin. together: for one process
that hosts all services of a cell (`muster serve all`)."""

METRICS_PORT = 9100
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a container; the container engine decides what is published
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_USUAL_PORTS_OF = {"http": 80, "https": 443}
_READS_REDIS = frozenset({"gateway", "projector", "notifier"})
"""Services with Redis access. The notifier reads a job's owner there if the log no longer has the job's first facts."""
_LOGS_IN_AT_FABRICS = frozenset({"composer", SIMULATOR})


@dataclass(frozen=True, slots=True)
class Layout:
    """Addresses of the parts, within the stack's network and from outside."""

    http_url: str
    """Address from outside, for browsers and the admin's machine; the next two likewise."""
    websocket_url: str
    nats_url: str
    home: Path = Path("/var/lib/muster")
    """Directory in which each part finds its own files."""
    nats: str = "nats"
    """Host name within the stack's network, like those that follow."""
    redis: str = "redis"
    gateway: str = "gateway"
    fabric: str = SIMULATOR
    exporters: str = DCGM_SIMULATOR
    flat: bool = False
    """Whether a part's directory holds only files, like a volume of a Kubernetes Secret."""

    @property
    def credentials(self) -> Path:
        """Return the directory with the credentials of a part's NATS users."""
        return self.home if self.flat else self.home / "creds"

    @property
    def keys(self) -> Path:
        """Return the directory with a part's other credentials."""
        return self.home if self.flat else self.home / KEYS

    @property
    def origins(self) -> tuple[str, ...]:
        """Return the origins that may use the WebSocket: the dashboard's, under each name of this machine if local.

        Raises ValueError if `http_url` is not a URL with a host.
        """
        url = urlsplit(self.http_url)
        if url.scheme not in _USUAL_PORTS_OF or not url.hostname:
            raise ValueError(f"http_url: {self.http_url!r} is not a valid address: write http://HOST:PORT")
        if url.hostname in _LOOPBACK_NAMES:
            return loopback_origins(url.port or _USUAL_PORTS_OF[url.scheme], scheme=url.scheme)
        return (f"{url.scheme}://{url.netloc}",)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a stack."""

    name: str
    settings: Settings | None = None
    endpoints: Endpoints | None = None
    users: tuple[str, ...] = ()
    """NATS users whose credentials the part holds."""
    files: tuple[str, ...] = ()
    """Other files of the part, by name in the directory of keys."""
    has_token: bool = False
    """Whether the part holds the admin's API token."""


def placed(settings: Settings, layout: Layout) -> Settings:
    """Return the settings of the whole stack with the parts' addresses in its network, without the Redis password."""
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
    """Return every part with its settings. settings: `placed`."""
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
    """Return the NATS users that a service connects as: its own, and those of every service that folds logs."""
    folding = (READER, MONITOR, LEASE) if declaration.folds else ()
    asking = (GATEWAY_QUERY, GATEWAY_LIVE) if declaration.service == GATEWAY else ()
    return (declaration.service, *folding, *asking)


def _outside(layout: Layout) -> Endpoints:
    return Endpoints(http=layout.http_url, nats=layout.nats_url, websocket=layout.websocket_url)


def _redis_url(layout: Layout, *, password: str) -> str:
    login = f":{password}@" if password else ""
    return f"redis://{login}{layout.redis}:{USUAL_PORTS['redis']}/0"
