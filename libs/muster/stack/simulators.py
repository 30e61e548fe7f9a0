"""Simulated DCGM exporters and fabric managers of a stack: one process of each kind.

Exporters have a page for every node of a simulated cluster. Managers are served on one port, each under its name; their
callers log in with credentials that are created once per state directory, in a file that the settings name.
"""

import json
from collections.abc import Callable
from pathlib import Path

from muster.bus.settings import FabricSettings, Settings
from muster.stack.keys import write_private
from muster.stack.ports import LOOPBACK

DCGM_SIMULATOR = "dcgm-simulator"
"""Name of the process, and of its `muster serve` command."""
DCGM_PORT = "dcgm"
PATH = "/nodes/{node}/metrics"
"""Path of a node's page. No simulator runs for an address with another path, which belongs to a real exporter."""
TELEMETRY = "telemetry"
SIMULATOR = "fabric-simulator"
"""Name of the process, and of its `muster serve` command."""
FABRIC_PORT = "fabric"
ASK_TO_LOG_IN = frozenset({"fm", "cm"})
"""Drivers whose managers issue a token for a password."""


def have_simulator(settings: Settings) -> bool:
    """Return whether the stack simulates exporters: its cluster is simulated, and no other exporter address is set."""
    told = settings.telemetry
    return (
        settings.kubernetes is None
        and settings.role != "centre"
        and told.enabled
        and settings.simulation.telemetry_interval_s > 0
        and (not told.url or told.url.endswith(PATH))
    )


def with_exporters(settings: Settings, *, port: int, host: str = LOOPBACK) -> Settings:
    """Return the settings with the addresses of the nodes' pages in the simulator."""
    if not have_simulator(settings):
        return settings
    url = f"http://{host}:{port}{PATH}"
    return settings.model_copy(update={"telemetry": settings.telemetry.model_copy(update={"url": url})})


USER, REALM, CLIENT = "muster", "fabric", "muster"


def are_simulated(settings: Settings) -> bool:
    """Return whether the stack simulates fabric managers."""
    return any(fabric.simulated is not None for fabric in settings.fabrics)


def located(settings: Settings, *, port: int, credentials_dir: Path, host: str = LOOPBACK) -> Settings:
    """Return the settings with the addresses of simulated fabrics in the simulator; others are unchanged."""

    def at(fabric: FabricSettings) -> FabricSettings:
        if fabric.simulated is None:
            return fabric
        login = credentials_of(fabric.name, credentials_dir) if fabric.driver in ASK_TO_LOG_IN else None
        url = f"http://{host}:{port}/{fabric.name}"
        return fabric.model_copy(update={"url": url, "credentials": login})

    return settings.model_copy(update={"fabrics": tuple(map(at, settings.fabrics))})


def credentials_of(fabric: str, directory: Path) -> Path:
    """Return the path of the credentials for a simulated manager."""
    return directory / f"fabric-{fabric}.json"


def write_credentials(settings: Settings, *, secret: Callable[[], str]) -> None:
    """Create missing credentials of the simulated fabrics; only this user may read them."""
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
