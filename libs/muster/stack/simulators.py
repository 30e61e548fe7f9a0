"""Simulated DCGM exporters and fabric managers of a stack: one process of each sort.

Exporters have a page for every node of a simulated cluster. Managers are served each under its name on one port;
whoever calls one logs in with credentials that are made once per state directory, and settings name their file.
"""

import json
from collections.abc import Callable
from pathlib import Path

from muster.bus.settings import FabricSettings, Settings
from muster.stack.keys import write_private
from muster.stack.ports import LOOPBACK

DCGM_SIMULATOR = "dcgm-simulator"
"""Name of the process, and what `muster serve` calls it."""
DCGM_PORT = "dcgm"
PATH = "/nodes/{node}/metrics"
"""Of a node's page. An address that ends otherwise is somebody's own, and no simulator runs for it."""
TELEMETRY = "telemetry"
SIMULATOR = "fabric-simulator"
"""Name of the process, and what `muster serve` calls it."""
FABRIC_PORT = "fabric"
ASK_TO_LOG_IN = frozenset({"fm", "cm"})
"""Drivers whose managers give a token for a password."""


def have_simulator(settings: Settings) -> bool:
    """Whether the stack runs one: its cluster is simulated, and its exporters are not said to be elsewhere."""
    told = settings.telemetry
    return (
        settings.kubernetes is None
        and settings.role != "centre"
        and told.enabled
        and settings.simulation.telemetry_interval_s > 0
        and (not told.url or told.url.endswith(PATH))
    )


def with_exporters(settings: Settings, *, port: int, host: str = LOOPBACK) -> Settings:
    """The settings with every node's page where the simulator serves it."""
    if not have_simulator(settings):
        return settings
    url = f"http://{host}:{port}{PATH}"
    return settings.model_copy(update={"telemetry": settings.telemetry.model_copy(update={"url": url})})


USER, REALM, CLIENT = "muster", "fabric", "muster"


def are_simulated(settings: Settings) -> bool:
    """Whether the stack runs a simulator."""
    return any(fabric.simulated is not None for fabric in settings.fabrics)


def located(settings: Settings, *, port: int, credentials_dir: Path, host: str = LOOPBACK) -> Settings:
    """The settings with every simulated fabric where the simulator serves it; others stay as they are."""

    def at(fabric: FabricSettings) -> FabricSettings:
        if fabric.simulated is None:
            return fabric
        login = credentials_of(fabric.name, credentials_dir) if fabric.driver in ASK_TO_LOG_IN else None
        url = f"http://{host}:{port}/{fabric.name}"
        return fabric.model_copy(update={"url": url, "credentials": login})

    return settings.model_copy(update={"fabrics": tuple(map(at, settings.fabrics))})


def credentials_of(fabric: str, directory: Path) -> Path:
    """The file with what is needed to log in at a simulated manager."""
    return directory / f"fabric-{fabric}.json"


def write_credentials(settings: Settings, *, secret: Callable[[], str]) -> None:
    """Make what is missing of the simulated fabrics' credentials; only this user may read them."""
    for fabric in settings.fabrics:
        if fabric.simulated is None or fabric.credentials is None or fabric.credentials.exists():
            continue
        login = {
            "username": USER,
            "password": secret(),
            "realm": REALM,
            "client_id": CLIENT,
            "client_secret": secret(),
        }
        write_private(fabric.credentials, json.dumps(login, indent=2))
