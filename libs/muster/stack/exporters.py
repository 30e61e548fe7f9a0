"""Simulated DCGM exporters of a stack: one process serves a page for every node of a simulated cluster."""

from muster.bus.settings import Settings
from muster.stack.ports import LOOPBACK

DCGM_SIMULATOR = "dcgm-simulator"
"""Name of the process, and what `muster run` calls it."""
DCGM_PORT = "dcgm"
PATH = "/nodes/{node}/metrics"
"""Of a node's page. An address that ends otherwise is somebody's own, and no simulator runs for it."""
TELEMETRY = "telemetry"


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
