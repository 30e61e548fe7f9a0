"""The options of a stack's start, and the `settings.json` made from them."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from muster.bus.access import BusUser
from muster.bus.gateway_settings import TlsSettings
from muster.bus.settings import Settings
from muster.schemas.access import Endpoints
from muster.schemas.base import Name
from muster.schemas.registry import RESERVED_CLUSTERS
from muster.stack.declared import SERVICES
from muster.stack.nats_server import SYNC_INTERVAL_S
from muster.stack.ports import LOOPBACK, USUAL_PORTS
from muster.stack.simulators import DCGM_PORT, FABRIC_PORT, located, with_exporters
from muster.stack.state_dir import StateDir, StateDirError

ALL = "all"
READY_FD = "MUSTER_READY_FD"  # descriptor on which a background process reports that it is ready, or its error
Json = dict[str, object]


def _not_reserved(cluster: str) -> str:
    if cluster in RESERVED_CLUSTERS:
        raise ValueError(f"{cluster!r} is a reserved name: choose another cluster name")
    return cluster


class StartOptions(BaseModel):
    """Options of one start. None or empty keeps the value in the state directory, or takes the default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state_dir: Path
    cluster: Annotated[Name, AfterValidator(_not_reserved)] | None = None
    clusters: tuple[Annotated[Name, AfterValidator(_not_reserved)], ...] = ()
    """Clusters of a center; each gets a cell, and `settings` apply to every cell."""
    cells: dict[str, dict[str, object]] = {}
    """Settings of a single cell, by its name."""
    links: dict[str, str] = {}
    """Address of the center's broker for the cell of a cluster, if it is not the center's port for leaf nodes."""
    settings: dict[str, object] = {}
    """Fields of `Settings` by section ({"fleet": {"nodes": 1750}})."""
    ports: dict[str, Annotated[int, Field(ge=0, le=65_535)]] = {}
    """Ports by name, as in `ports.USUAL_PORTS`; 0 takes any free port."""
    any_ports: bool = False
    """Take any free port for names without a remembered port, so that stacks can start in parallel."""
    split: bool = False
    """Run one process per service."""
    fresh: bool = False
    services: tuple[str, ...] = SERVICES
    service_command: tuple[str, ...] = (
        sys.executable, "-m", "muster.cli.main", "serve", "{name}", "--state-dir", "{state_dir}",
    )  # fmt: skip
    ready_path: str = "/readyz"
    """Path of the gateway that is polled until it returns 200; "" does not wait."""
    ready_s_max: Annotated[float, Field(gt=0)] = 60.0
    users: tuple[BusUser, ...] | None = None
    """None asks the services."""
    started_as: Annotated[str, Field(max_length=200)] = "muster up"
    """Shown to users who find the directory in use."""
    sync_interval_s: Annotated[float, Field(ge=0)] = SYNC_INTERVAL_S
    """See `nats_server.SYNC_INTERVAL_S`."""
    store_bytes_max: int | None = None
    """Maximum size of the broker's store; None limits it by the disk."""

    def processes(self) -> tuple[str, ...]:
        """Return the names of the service processes: each service, or one that hosts all."""
        return self.services if self.split else (ALL,)

    def command(self, name: str, *, state_dir: Path | None = None) -> tuple[str, ...]:
        """Return the command line of a service process. state_dir: of a cell; None for the stack's."""
        place = str(self.state_dir if state_dir is None else state_dir)
        return tuple(word.replace("{name}", name).replace("{state_dir}", place) for word in self.service_command)


def metrics_name(process: str) -> str:
    """Return the name of a service process's metrics port."""
    return "metrics" if process == ALL else f"metrics-{process}"


def wanted_ports(
    options: StartOptions, remembered: Mapping[str, int], *, fabrics: bool = False, exporters: bool = False
) -> dict[str, int]:
    """Return the preferred ports: the requested one, else that of the last start, else the usual one (0: any).

    fabrics, exporters: whether the stack simulates them.
    """
    left_out = {"metrics"}
    left_out |= set() if fabrics else {FABRIC_PORT}
    left_out |= set() if exporters else {DCGM_PORT}
    usual = {name: port for name, port in USUAL_PORTS.items() if name not in left_out}
    usual |= {metrics_name(name): USUAL_PORTS["metrics"] + i for i, name in enumerate(options.processes())}
    return wanted_of(options, remembered, usual)


def wanted_of(options: StartOptions, remembered: Mapping[str, int], usual: Mapping[str, int]) -> dict[str, int]:
    """Return the preferred ports for these names."""
    return {
        name: options.ports.get(name, remembered.get(name, 0 if options.any_ports else port))
        for name, port in usual.items()
    }


def endpoints_of(
    ports: Mapping[str, int], *, redis_url: str, processes: tuple[str, ...], tls: TlsSettings | None = None
) -> Endpoints:
    """Return the addresses of all listeners."""
    return Endpoints(
        http=f"{'https' if tls is not None and tls.is_on else 'http'}://{LOOPBACK}:{ports['http']}",
        ca_file=str(tls.ca_file.resolve()) if tls is not None and tls.ca_file is not None else "",
        nats=f"nats://{LOOPBACK}:{ports['nats']}",
        redis=redis_url,
        monitor=f"http://{LOOPBACK}:{ports['monitor']}",
        websocket=f"ws://{LOOPBACK}:{ports['websocket']}",
        metrics=tuple(f"http://{LOOPBACK}:{ports[metrics_name(name)]}/metrics" for name in processes),
        ports=dict(ports),
    )


def remembered_ports(state: StateDir) -> dict[str, int]:
    """Return the ports of the last start; none if there was none or its file is damaged."""
    try:
        return Endpoints.model_validate_json(state.endpoints.read_bytes()).ports
    except (FileNotFoundError, ValueError):
        return {}


def refuse_another_role(state: StateDir, asked: Settings) -> None:
    """Raise StateDirError if the directory holds a stack of another role, whose streams are different."""
    if not state.settings.exists():
        return
    before = json.loads(state.settings.read_bytes()).get("role", "whole")
    if before != asked.role:
        raise StateDirError(
            f"{state.path} holds a stack that is {before!r}, not {asked.role!r}: discard it with --fresh, or use "
            "another --state-dir"
        )


def asked_settings(options: StartOptions) -> Settings:
    """Return the previous settings, none if fresh, with this start's changes; listeners are still the previous ones.

    Raises pydantic.ValidationError.
    """
    state = StateDir(options.state_dir)
    before: Json = {}
    if not options.fresh and state.settings.exists():
        before = json.loads(state.settings.read_bytes())
    fixed: Json = {"state_dir": str(state.path), "credentials_dir": str(state.creds)}
    if options.cluster is not None:
        fixed["cluster"] = options.cluster
    if options.clusters:
        fixed |= _centre(options, before)
    return Settings.model_validate(merged(merged(before, options.settings), fixed))


def _centre(options: StartOptions, before: Json) -> Json:
    """Return the settings that make a stack the center of these clusters; other settings of the clusters are kept.

    One administrator starts all of them, so the center gets the same team mapping for namespaces as the cell.
    """
    federation = before.get("federation", {})
    known = federation.get("clusters", []) if isinstance(federation, dict) else []
    said = {member["name"]: member for member in known}
    members = [merged(said.get(name, {"name": name}), _teams_of(options, name)) for name in options.clusters]
    return {"role": "centre", "cluster": options.clusters[0], "federation": {"clusters": members}, "fabrics": []}


def _teams_of(options: StartOptions, cluster: str) -> Json:
    """Return `teams` of a member, if this start sets `kubernetes.teams` of its cell."""
    asked = merged(options.settings, options.cells.get(cluster, {})).get("kubernetes")
    return {"teams": asked["teams"]} if isinstance(asked, dict) and "teams" in asked else {}


def new_settings(options: StartOptions, endpoints: Endpoints) -> Settings:
    """Return the settings of this start, with all listeners. Raises pydantic.ValidationError."""
    listening: Json = {
        "nats_url": endpoints.nats,
        "redis_url": endpoints.redis,
        "http_host": LOOPBACK,
        "http_port": endpoints.ports["http"],
        "metrics_port": endpoints.ports.get("metrics", 0),
        "websocket_url": endpoints.websocket,
        "dashboard_url": endpoints.http,
    }
    settings = asked_settings(options).model_copy(update=listening)
    if DCGM_PORT in endpoints.ports:
        settings = with_exporters(settings, port=endpoints.ports[DCGM_PORT])
    if FABRIC_PORT not in endpoints.ports:
        return settings
    return located(settings, port=endpoints.ports[FABRIC_PORT], credentials_dir=StateDir(options.state_dir).keys)


def merged(base: Mapping[str, object], over: Mapping[str, object]) -> Json:
    """Return `base` updated by `over`, section by section."""
    changed = dict(base)
    for key, value in over.items():
        old = changed.get(key)
        changed[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return changed
