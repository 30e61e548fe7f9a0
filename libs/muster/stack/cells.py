"""The cells of a center that runs on this machine: a broker and the services of one cluster each.

`<state-dir>/cells/<cluster>` is a normal state directory with its own keys: a cell trusts its center only with what the
credential of its leaf node allows (`bus.leaf`), and continues alone while the link is down.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from muster.bus.leaf import cell_user_name
from muster.bus.settings import Settings
from muster.schemas.access import Endpoints
from muster.stack import nats_server
from muster.stack.declared import declared_users, services_of
from muster.stack.entering import new_secret
from muster.stack.keys import mint_access, write_private
from muster.stack.options import ALL, StartOptions, merged, wanted_of
from muster.stack.ports import LOOPBACK
from muster.stack.probes import http_answers, http_ok, leads, leaf_nodes
from muster.stack.process import Command
from muster.stack.simulators import (
    DCGM_PORT,
    DCGM_SIMULATOR,
    FABRIC_PORT,
    SIMULATOR,
    are_simulated,
    have_simulator,
    located,
    with_exporters,
    write_credentials,
)
from muster.stack.state_dir import StateDir
from muster.stack.supervisor import Child, Supervisor

CELLS = "cells"
SCHEDULER = "scheduler"
"""A cell is ready when its scheduler leads: before that, its queues and nodes are not reported."""
LEAF_PORT = "leaf"
LEAF_USUAL_PORT = 7422
CENTRE_CREDENTIALS = "centre.creds"
"""Credential by which a cell's broker joins the center's, in the cell's directory of keys."""
FIRST_PORTS: Mapping[str, int] = {"nats": 4230, "monitor": 8230, "metrics": 9470, FABRIC_PORT: 8071, DCGM_PORT: 9401}
"""Usual ports of the first cell; those of the other cells follow in steps of `PORT_STEP`."""
PORT_STEP = 10
LINKED_S_MAX = 5.0
LINK_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    cluster: str
    state: StateDir
    settings: Settings
    ports: Mapping[str, int]
    """Ports of the cell, by their usual names."""
    link: str
    """Address of the center's broker for leaf nodes."""

    @property
    def process(self) -> str:
        """Return the name of the process with the cell's services."""
        return f"cell-{self.cluster}"

    @property
    def metrics_url(self) -> str:
        """Return the URL of that process's metrics."""
        return f"http://{LOOPBACK}:{self.ports['metrics']}/metrics"


def cell_port(cluster: str, name: str) -> str:
    """Return the name of a cell's port among the stack's ports."""
    return f"{CELLS}-{cluster}-{name}"


def wanted_cell_ports(clusters: Sequence[str], options: StartOptions, remembered: Mapping[str, int]) -> dict[str, int]:
    """Return the preferred ports of all cells, and the center's port for leaf nodes. As `options.wanted_ports`."""
    usual = {LEAF_PORT: LEAF_USUAL_PORT} if clusters else {}
    for number, cluster in enumerate(clusters):
        for name, port in FIRST_PORTS.items():
            usual[cell_port(cluster, name)] = port + number * PORT_STEP
    return wanted_of(options, remembered, usual)


def cell_of(cluster: str, *, centre: Settings, options: StartOptions, ports: Mapping[str, int]) -> Cell:
    """Return the configuration of a cell. Raises pydantic.ValidationError, StateDirError."""
    state = StateDir(centre.state_dir / CELLS / cluster)
    state.prepare()
    own = {name: ports[cell_port(cluster, name)] for name in FIRST_PORTS}
    before = json.loads(state.settings.read_bytes()) if state.settings.exists() else {}
    common = {"fleet": {"prefix": f"{cluster}-gpu"}, "bus": centre.bus.model_dump(mode="json")}
    asked = merged(merged(common, options.settings), options.cells.get(cluster, {}))
    fixed = {
        "role": "cell",
        "cluster": cluster,
        "state_dir": str(state.path),
        "credentials_dir": str(state.creds),
        "nats_url": f"nats://{LOOPBACK}:{own['nats']}",
        "metrics_port": own["metrics"],
        "dashboard_url": centre.dashboard_url,
        "federation": centre.federation.model_dump(mode="json"),
    }
    settings = Settings.model_validate(merged(merged(before, asked), fixed))
    if are_simulated(settings):
        settings = located(settings, port=own[FABRIC_PORT], credentials_dir=state.keys)
    settings = with_exporters(settings, port=own[DCGM_PORT])
    link = options.links.get(cluster, f"nats-leaf://{LOOPBACK}:{ports[LEAF_PORT]}")
    return Cell(cluster, state, settings, own, link)


async def start_cells(cells: Sequence[Cell], supervisor: Supervisor, *, options: StartOptions, now_s: int) -> None:
    """Start the cells' brokers, which join the center's. Raises ChildNotReadyError, DeclarationError, OSError."""
    await supervisor.start(*await asyncio.gather(*(_broker(cell, options=options, now_s=now_s) for cell in cells)))


async def wait_for_links(cells: Sequence[Cell], *, monitor_port: int) -> None:
    """Wait until all cells have joined the center, at most `LINKED_S_MAX`.

    A cell also starts while its link is down. Copies requested before the cell has joined cost tens of seconds, until
    the broker retries.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LINKED_S_MAX):
            while await leaf_nodes(monitor_port) < len(cells):  # noqa: ASYNC110 - the broker cannot set an event here
                await asyncio.sleep(LINK_POLL_S)


async def start_services(cells: Sequence[Cell], supervisor: Supervisor, *, options: StartOptions) -> None:
    """Start the processes of the cells after their brokers have their streams. Raises ChildNotReadyError."""
    for cell in cells:
        told = Endpoints(http=cell.settings.dashboard_url, ports=cell.ports)
        write_private(cell.state.endpoints, told.model_dump_json(indent=2))
    await supervisor.start(
        *(_simulator(cell, options, SIMULATOR, FABRIC_PORT) for cell in cells if are_simulated(cell.settings)),
        *(_simulator(cell, options, DCGM_SIMULATOR, DCGM_PORT) for cell in cells if have_simulator(cell.settings)),
    )
    await supervisor.start(*(_services(cell, options) for cell in cells))


async def _broker(cell: Cell, *, options: StartOptions, now_s: int) -> Child:
    users = await declared_users(services_of(cell.settings), cell.settings)
    state = cell.state
    access = mint_access(keys_dir=state.keys, credentials_dir=state.creds, users=users, now_s=now_s)
    write_credentials(cell.settings, secret=new_secret)
    write_private(state.settings, cell.settings.model_dump_json(indent=2))
    credentials = state.keys / CENTRE_CREDENTIALS
    centre = StateDir(options.state_dir)
    write_private(credentials, (centre.creds / f"{cell_user_name(cell.cluster)}.creds").read_text())
    config = nats_server.NatsConfig(
        port=cell.ports["nats"],
        monitor_port=cell.ports["monitor"],
        store_dir=state.nats / "store",
        sync_interval_s=options.sync_interval_s,
        store_bytes_max=options.store_bytes_max,
        access=access,
        name=cell.process,
        domain=cell.cluster,
        leaf=nats_server.Leaf(cell.link, access.log_account, credentials),
    )
    return broker_child(config, state.nats / "nats-server.conf", name=f"{cell.process}-nats")


def broker_child(config: nats_server.NatsConfig, path: Path, *, name: str) -> Child:
    """Write the configuration to `path` and return the child process of its nats-server."""
    write_private(path, nats_server.render(config))
    command = Command(
        name,
        (str(nats_server.nats_binary()), "-c", str(path)),
        {"GOMEMLIMIT": f"{nats_server.MEMORY_LIMIT_MIB}MiB", "GOGC": str(nats_server.COLLECT_AT_PERCENT)},
    )
    return Child(command, partial(http_ok, config.monitor_port, "/healthz"))


def _simulator(cell: Cell, options: StartOptions, name: str, port: str) -> Child:
    """Return the child process of the cell's fabric managers, or of its exporters."""
    command = Command(f"{cell.process}-{port}", options.command(name, state_dir=cell.state.path))
    return Child(command, partial(http_answers, cell.ports[port]), ready_s_max=options.ready_s_max)


def _services(cell: Cell, options: StartOptions) -> Child:
    argv = options.command(ALL, state_dir=cell.state.path)
    command = Command(cell.process, argv, {"MALLOC_ARENA_MAX": "2"})
    probe = partial(leads, cell.ports["metrics"], SCHEDULER)
    return Child(command, probe if options.ready_path else None, ready_s_max=options.ready_s_max)
