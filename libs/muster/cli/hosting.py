"""`muster run`: one process of a stack."""

import os
from pathlib import Path

from muster.bus.settings import load_settings
from muster.cli.errors import unreachable, usage
from muster.stack.declared import SERVICES, services_of
from muster.stack.options import ALL
from muster.stack.simulators import DCGM_SIMULATOR, SIMULATOR


def run(service: str, state_dir: Path) -> None:
    """Host one service, or all, or the simulated fabrics or exporters, until SIGTERM.

    Raises CliError if there is no such service or no settings.
    """
    if service not in (ALL, SIMULATOR, DCGM_SIMULATOR, *SERVICES):
        raise usage(f"SERVICE: {service!r} is none of {', '.join((ALL, *SERVICES, SIMULATOR, DCGM_SIMULATOR))}")
    if not (state_dir / "settings.json").is_file():
        raise unreachable(f"--state-dir: {state_dir} holds no settings.json; `muster up` writes it")
    if service == SIMULATOR:
        from muster.fabric.simulator.server import main

        main(state_dir)
        return
    if service == DCGM_SIMULATOR:
        from muster.telemetry.simulator.process import main as serve_exporters

        serve_exporters(state_dir)
        return
    from muster.bus.host import run_services

    names = services_of(load_settings(state_dir, os.environ)) if service == ALL else (service,)
    run_services(names, state_dir)
