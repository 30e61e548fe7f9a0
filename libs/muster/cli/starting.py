"""Start and stop a stack, with its first queues and example jobs."""

import asyncio
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from muster.bus.logs import TextLines
from muster.bus.settings import load_settings
from muster.cli import output, queue_tree, watching
from muster.cli.api_access import ApiAccess, choose_access
from muster.cli.errors import CliError, refused, unreachable, usage
from muster.cli.examples_dir import job_files, queue_file
from muster.cli.jobfile import load_jobs, sentence
from muster.cli.options import Output
from muster.cli.output import print_error, print_line, print_lines, print_note
from muster.cli.queue_tree import load_queues
from muster.cli.session import connected
from muster.cli.stack_commands import FleetOptions
from muster.schemas.access import Endpoints
from muster.stack import control, up
from muster.stack.declared import SERVICES, DeclarationError, services_of
from muster.stack.nats_server import BinaryMissingError
from muster.stack.options import ALL, StartOptions, asked_settings
from muster.stack.ports import LOOPBACK
from muster.stack.simulators import DCGM_SIMULATOR, FABRIC_PORT, SIMULATOR
from muster.stack.state_dir import StateDir, StateDirError
from muster.stack.supervisor import ChildNotReadyError

if TYPE_CHECKING:
    from muster.client import Muster


GROUP, FABRIC = "flex", "fabric"
MODEL = "NVIDIA-A100-PCIE-40GB"
"""As in the sample request of the field's operator."""
NODES, POOL = 2, 8
GPUS_MAX = 8
SPARE_NODES = 2
"""Nodes that scaling may add to those that are there at the start."""

Json = dict[str, object]

START_ERRORS = (StateDirError, DeclarationError, ChildNotReadyError, BinaryMissingError, control.StartFailedError)
QUEUES_KNOWN_S_MAX = 30.0  # from asking for queues to the scheduler having them
POLL_S = 0.1

SERVED = (ALL, *SERVICES, SIMULATOR, DCGM_SIMULATOR)
"""What `muster serve` runs."""

Result = TypeVar("Result")


def composable_settings(*, nodes: int, pool: int) -> Json:
    """Sections of `Settings`. nodes: there from the start, without GPUs, and kept; 0: nothing scales and no fabric.

    pool: GPUs in the pool.
    """
    if not nodes:
        return {"scaling": {"groups": []}, "fabrics": []}
    group: Json = {
        "name": GROUP,
        "composable": True,
        "nodes": nodes,
        "nodes_min": nodes,
        "nodes_max": nodes + SPARE_NODES,
        "gpus_max": GPUS_MAX,
        "gpu_models": [MODEL],
        "fabric": FABRIC,
    }
    return {"scaling": {"groups": [group]}, "fabrics": [{"name": FABRIC, "simulated": {"pool": {MODEL: pool}}}]}


@dataclass(frozen=True, slots=True)
class Plan:
    """One start. queues: queue file to apply; None: the example queues if there are none yet."""

    options: StartOptions
    queues: Path | None
    examples: bool


def options(
    state_dir: Path,
    *,
    fresh: bool,
    split: bool,
    http_port: int | None,
    fleet: FleetOptions,
    clusters: tuple[str, ...] = (),
) -> StartOptions:
    """Return the options of a start. None: not given, as recorded in the state directory. Raises CliError."""
    sections = {
        "fleet": {name: getattr(fleet, name) for name in ("nodes", "gpus_per_node", "rack_size", "nvlink_size")},
        "simulation": {"seed": fleet.seed, "node_failures_per_day": fleet.failures_per_day},
    }
    given = {
        name: {key: value for key, value in section.items() if value is not None} for name, section in sections.items()
    }
    composable = 0 if clusters and not fleet.composable else fleet.composable
    settings: dict[str, object] = {name: section for name, section in given.items() if section}
    settings |= _composable(state_dir, fresh=fresh, nodes=composable, pool=fleet.pool)
    ports = {} if http_port is None else {"http": http_port}

    def made() -> StartOptions:
        found = StartOptions(
            state_dir=state_dir, settings=settings, clusters=clusters, ports=ports, split=split, fresh=fresh
        )
        asked_settings(found)  # wrong settings are refused now, before anything starts
        return found

    return _started(made)


def _composable(state_dir: Path, *, fresh: bool, nodes: int | None, pool: int | None) -> dict[str, object]:
    """Return the composable group: as given, the default at the first start, or as recorded."""
    is_first = fresh or not StateDir(state_dir).settings.exists()
    if nodes is None and pool is None and not is_first:
        return {}
    return composable_settings(nodes=NODES if nodes is None else nodes, pool=POOL if pool is None else pool)


def in_background(plan: Plan) -> None:
    """Start in the background; apply queues and examples; return. Raises CliError."""
    wanted = _queues_wanted(plan)
    with output.talk().status("starting ..."):
        status = _started(lambda: control.detach(plan.options))
    asyncio.run(_first_steps(plan, wanted))
    assert status.endpoints is not None
    print_lines(where(plan.options.state_dir, status.endpoints))


def in_foreground(plan: Plan) -> None:
    """Start and run until Ctrl-C. Raises CliError."""
    _queues_wanted(plan)
    print_note("starting ...")
    _log_to_file(plan.options.state_dir)
    _started(lambda: asyncio.run(_stay(plan)))
    print_line("stopped; `muster up` continues from this state")


def _log_to_file(state_dir: Path) -> None:
    """Redirect the log of the supervisor to a file, so that the terminal stays readable."""
    log = StateDir(state_dir).logs / control.SUPERVISOR_LOG
    handler = logging.FileHandler(log, delay=True)
    handler.setFormatter(TextLines())
    logging.getLogger("muster").addHandler(handler)


async def _stay(plan: Plan) -> None:
    company: list[asyncio.Task[None]] = []

    def ready(stack: up.RunningStack) -> None:
        print_lines(where(plan.options.state_dir, stack.endpoints))
        company.append(asyncio.create_task(_accompany(plan)))

    try:
        await up.serve(plan.options, on_ready=ready)
    finally:
        for task in company:
            task.cancel()
        await asyncio.gather(*company, return_exceptions=True)


async def _accompany(plan: Plan) -> None:
    """Apply queues and examples while the stack runs; print errors without stopping it."""
    try:
        await _first_steps(plan, _queues_wanted(plan))
        await watching.run(plan.options.state_dir)
    except CliError as error:
        print_error(error)


def _queues_wanted(plan: Plan) -> Path | None:
    """Read the queue file before the start, so that an invalid file fails early."""
    path = plan.queues or queue_file()
    if path is not None:
        load_queues(path)
    return path


async def _first_steps(plan: Plan, queues: Path | None) -> None:
    choose_access(ApiAccess(is_local=True))  # a remote gateway never gets the examples of a local stack
    async with connected(plan.options.state_dir) as muster:
        if queues is not None and (plan.queues is not None or not await muster.queues()):
            await set_queues(muster, queues)
        if plan.examples:
            await _submit_examples(muster)


async def set_queues(muster: "Muster", path: Path) -> None:
    """Apply the queues and wait until the scheduler has them: jobs are accepted only then."""
    specs = load_queues(path)
    missing = {spec.name for spec in specs} - await queue_tree.ask_for(muster, specs)
    try:
        async with asyncio.timeout(QUEUES_KNOWN_S_MAX):
            while missing := missing - {queue.name for queue in await muster.queues()}:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        told = ", ".join(sorted(missing))
        raise refused(
            f"queues {told} of {path} are not there after {QUEUES_KNOWN_S_MAX:g} s; see `muster events`"
        ) from None


async def _submit_examples(muster: "Muster") -> None:
    """Submit the examples once per state directory: the idempotency key is the name of the file."""
    from muster.client import RefusedError

    for path in job_files():
        for number, spec in enumerate(load_jobs(path), start=1):
            try:
                await muster.submit(spec, idempotency_key=f"example-{path.stem}-{number}")
            except RefusedError as error:
                print_error(f"example {path.name} was not accepted: {error}")


def where(state_dir: Path, endpoints: Endpoints) -> str:
    """Return the addresses of the stack. The token itself is not shown."""
    fabric = endpoints.ports.get(FABRIC_PORT)
    places = (
        ("dashboard", f"{endpoints.http}  (`muster dashboard` logs you in)"),
        ("HTTP API", f"{endpoints.http}  (docs: {endpoints.http}/docs)"),
        ("NATS", f"{endpoints.nats}  (WebSocket: {endpoints.websocket}, monitoring: {endpoints.monitor})"),
        ("Redis", without_password(endpoints.redis)),
        ("fabrics", f"http://{LOOPBACK}:{fabric}  (simulated managers)" if fabric else ""),
        ("metrics", ", ".join(endpoints.metrics)),
        ("state", str(state_dir)),
        ("API token", str(state_dir / "token")),
    )
    return "\n".join(f"  {name:<10} {place}" for name, place in places if place)


def without_password(url: str) -> str:
    """Return a URL for display."""
    return re.sub(r"//[^@/]*@", "//", url)


def stop(state_dir: Path) -> None:
    """Stop the stack of a state directory. Raises CliError if it does not stop."""
    try:
        stopped = control.down(state_dir)
    except (control.StopTimeoutError, StateDirError) as error:
        raise refused(str(error)) from error
    if stopped.holder is None:
        print_line(f"no stack is running in {state_dir}")
        return
    print_line(f"stopped (process {stopped.holder.pid}); the state is kept in {state_dir}")


def show_status(state_dir: Path, form: Output) -> None:
    """Print the running processes. Raises CliError (unreachable) if there are none."""
    try:
        found = control.status(state_dir)
    except StateDirError as error:
        raise refused(str(error)) from error
    shown = (
        found.endpoints.model_copy(update={"redis": without_password(found.endpoints.redis)})
        if found.endpoints
        else None
    )
    if form is Output.JSON:
        output.emit_json(
            {
                "state_dir": str(state_dir),
                "running": found.running,
                "pid": found.holder.pid if found.holder else None,
                "since_s": found.holder.since_s if found.holder else None,
                "endpoints": shown.model_dump(mode="json") if shown else None,
                "processes": [
                    {"name": one.name, "pid": one.pid, "rss_mib": round(one.rss_mib, 1)} for one in found.processes
                ],
            }
        )
    if not found.running:
        raise unreachable(f"no stack is running in {state_dir}; `muster up --state-dir {state_dir}` starts a stack")
    if form is not Output.JSON and shown is not None:
        print_lines(where(state_dir, shown))
        rows = ((one.name, str(one.pid), f"{one.rss_mib:.0f}") for one in found.processes)
        output.table(("PROCESS", "PID", "RSS_MIB"), rows, right=("PID", "RSS_MIB"))


def _started(start: Callable[[], Result]) -> Result:
    """Start the stack; convert errors into CliError."""
    from pydantic import ValidationError

    try:
        return start()
    except ValidationError as error:
        raise usage(f"settings: {sentence(error)}") from error
    except ValueError as error:
        raise usage(f"settings: {error}; remove the file, or start with --fresh") from error
    except START_ERRORS as error:
        raise refused(str(error)) from error


def serve(service: str, state_dir: Path) -> None:
    """Run one service, or all, or the simulated fabrics or exporters, until SIGTERM.

    Raises CliError for an unknown service or missing settings.
    """
    if service not in SERVED:
        raise usage(f"SERVICE: {service!r} is unknown; use one of {', '.join(SERVED)}")
    if not (state_dir / "settings.json").is_file():
        raise unreachable(f"--state-dir: {state_dir} has no settings.json; `muster up` creates it")
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
