"""Writes the files of a stack whose parts run separately: keys once, credentials anew each time, settings as given.

Every part's directory may be a separate volume. The next run reads only `keys` again.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from muster.bus import jwt
from muster.bus.declaration import Declaration
from muster.bus.federation_settings import CentreSettings
from muster.bus.leaf import cell_user_name
from muster.bus.names import CENTRE_DOMAIN
from muster.bus.settings import Settings
from muster.stack import nats_server, redis_server
from muster.stack.cells import CENTRE_CREDENTIALS, LEAF_USUAL_PORT
from muster.stack.declared import check_settings, declaration_of, services_of, users_of_bus
from muster.stack.entering import new_secret, new_token
from muster.stack.keys import MintedAccess, mint_access, write_private
from muster.stack.parts import (
    EVERYWHERE,
    GRAFANA,
    KEYS,
    NATS,
    REDIS,
    Layout,
    Part,
    parts,
    placed,
)
from muster.stack.ports import USUAL_PORTS
from muster.stack.simulators import write_credentials
from muster.stack.state_dir import StateDir

NATS_STORE = Path("/data")
"""Directory of the broker's store: a volume."""
REDIS_DIRECTORY = Path("/tmp")  # noqa: S108 - nothing is written there, and its container has no other users
_CREDENTIALS, _TOKEN, _REDIS_PASSWORD, _GRAFANA_PASSWORD = "creds", "token", "redis-password", "grafana-password"
_ROUTE_PASSWORD = "route-password"  # noqa: S105 - the name of a file


@dataclass(frozen=True, slots=True)
class Broker:
    """Options of the broker. sync_interval_s, store_bytes_max, pid_file: see `nats_server`."""

    servers: tuple[str, ...] = ()
    """Host names of all servers of a cluster; empty for a single server."""
    sync_interval_s: float = nats_server.SYNC_INTERVAL_S
    store_bytes_max: int | None = None
    pid_file: Path | None = None


ALONE = Broker()


def provision(
    directory: Path,
    layout: Layout,
    settings: Settings,
    *,
    now_s: int,
    services: Sequence[str] | None = None,
    broker: Broker = ALONE,
    entropy: Callable[[int], bytes] = os.urandom,
) -> tuple[str, ...]:
    """Write `directory`/<part>/ for every part; return the names of the parts.

    settings: as requested, without listeners. services: None: those of the stack's role. A center's cells get a part
    each, with the credential by which they join. Raises DeclarationError, ValueError (a service rejects these settings,
    or `layout` holds no URL), OSError.
    """
    services = services_of(settings) if services is None else services
    declarations = tuple(map(declaration_of, services))
    whole = placed(settings, layout)
    for service in services:
        check_settings(service, whole)
    keys = directory / KEYS
    redis_password = _once(keys / _REDIS_PASSWORD, new_secret)
    token = _once(keys / _TOKEN, new_token)
    grafana = _once(keys / _GRAFANA_PASSWORD, new_secret)
    access = _mint(keys, declarations, settings, now_s=now_s, entropy=entropy)
    write_credentials(_with_logins_in(whole, keys), secret=new_secret)
    told = parts(declarations, whole, layout, redis_password=redis_password)
    for part in told:
        _write(part, directory / part.name, keys=keys, token=token)
    joining = tuple(_write_cell(directory, cluster, keys=keys) for cluster in _cells(settings))
    config = _with_domain(_nats(layout, access, broker, keys, name=_broker_name(settings)), settings, layout, access)
    if settings.role == "cell":
        write_private(directory / NATS / CENTRE_CREDENTIALS, _centre(settings).credentials.read_text(encoding="utf-8"))
    write_private(directory / NATS / "nats-server.conf", nats_server.render(config))
    write_private(directory / REDIS / "redis.conf", redis_server.render(_redis(redis_password)))
    write_private(directory / GRAFANA / "admin-password", grafana)
    return (*(part.name for part in told), *joining, KEYS, NATS, REDIS, GRAFANA)


def _cells(settings: Settings) -> tuple[str, ...]:
    return settings.clusters if settings.role == "centre" else ()


def _write_cell(directory: Path, cluster: str, *, keys: Path) -> str:
    """Write the part for the administrator of a cell, with only its broker's credential; return the part's name."""
    name = cell_user_name(cluster)
    write_private(directory / name / CENTRE_CREDENTIALS, (keys / _CREDENTIALS / f"{name}.creds").read_text())
    return name


def _centre(settings: Settings) -> CentreSettings:
    """Return the settings of the center. Raises ValueError if a cell has none."""
    if settings.federation.centre is None:
        raise ValueError("federation.centre: a cell that runs apart needs the center's url and its own credentials")
    return settings.federation.centre


def _with_domain(
    config: nats_server.NatsConfig, settings: Settings, layout: Layout, access: MintedAccess
) -> nats_server.NatsConfig:
    """Return the configuration of the broker with its domain and leaf node settings."""
    match settings.role:
        case "whole":
            return config
        case "centre":
            return replace(config, domain=CENTRE_DOMAIN, leaf_port=LEAF_USUAL_PORT)
        case "cell":
            leaf = nats_server.Leaf(_centre(settings).url, access.log_account, layout.home / CENTRE_CREDENTIALS)
            return replace(config, domain=settings.cluster, leaf=leaf)


def _once(path: Path, make: Callable[[], str]) -> str:
    if not path.exists():
        write_private(path, make())
    return path.read_text()


def _mint(
    keys: Path, declarations: Sequence[Declaration], settings: Settings, *, now_s: int, entropy: Callable[[int], bytes]
) -> MintedAccess:
    return mint_access(
        keys_dir=keys,
        credentials_dir=keys / _CREDENTIALS,
        users=users_of_bus(declarations, settings),
        now_s=now_s,
        entropy=entropy,
    )


def _with_logins_in(settings: Settings, keys: Path) -> Settings:
    """Return the settings with the paths of the fabrics' credentials where they are created."""
    moved = (
        fabric.model_copy(update={"credentials": keys / fabric.credentials.name})
        if fabric.simulated is not None and fabric.credentials is not None
        else fabric
        for fabric in settings.fabrics
    )
    return settings.model_copy(update={"fabrics": tuple(moved)})


def _write(part: Part, directory: Path, *, keys: Path, token: str) -> None:
    """Write a part's directory in the layout of `StateDir`; remove credentials that it no longer holds."""
    state = StateDir(directory)
    if part.settings is not None:
        write_private(state.settings, part.settings.model_dump_json(indent=2))
    if part.endpoints is not None:
        write_private(state.endpoints, part.endpoints.model_dump_json(indent=2))
    if part.has_token:
        write_private(state.token, f"{token}\n")
    wanted = {state.creds / f"{user}.creds" for user in part.users}
    for file in set(state.creds.glob("*.creds")) - wanted:
        file.unlink()
    for file in wanted:
        write_private(file, (keys / _CREDENTIALS / file.name).read_text())
    for name in part.files:
        own = state.creds if name == jwt.VIEW_SIGNER_FILE else state.keys
        source = keys / _CREDENTIALS if name == jwt.VIEW_SIGNER_FILE else keys
        write_private(own / name, (source / name).read_text())


def _broker_name(settings: Settings) -> str:
    """Return the NATS cluster name, which is unique because a leaf node with the same name is refused."""
    return f"muster-{settings.cluster}" if settings.role == "cell" else "muster"


def _nats(layout: Layout, access: MintedAccess, broker: Broker, keys: Path, *, name: str) -> nats_server.NatsConfig:
    cluster = None
    if broker.servers:
        password = _once(keys / _ROUTE_PASSWORD, new_secret)
        cluster = nats_server.NatsCluster(name, broker.servers, password)
    return nats_server.NatsConfig(
        port=USUAL_PORTS["nats"],
        monitor_port=USUAL_PORTS["monitor"],
        websocket_port=USUAL_PORTS["websocket"],
        store_dir=NATS_STORE,
        origins=layout.origins,
        access=access,
        host=EVERYWHERE,
        sync_interval_s=broker.sync_interval_s,
        store_bytes_max=broker.store_bytes_max,
        cluster=cluster,
        pid_file=broker.pid_file,
    )


def _redis(password: str) -> redis_server.RedisConfig:
    return redis_server.RedisConfig(USUAL_PORTS["redis"], REDIS_DIRECTORY, password=password, host=EVERYWHERE)
