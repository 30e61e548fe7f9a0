"""Benchmark of attaching many GPUs over one fabric: a fresh stack, with its simulated manager behind real HTTP.

The time is compared with the times of the switches alone, as the manager drew and did them: serially, and in parallel
on as many slots as the fabric has. Two figures bound what those slots allow. The lower bound (the longest switch, or
the sum spread over all slots) is below every schedule. The list schedule takes the switches in the order in which they
were started, each on the first free slot (Graham, 1966): a caller without overhead would reach it without knowing the
switch times in advance.
"""

import asyncio
import math
import time
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass
from heapq import heapreplace
from pathlib import Path

import httpx
from pydantic import BaseModel

from muster.bus.access import ADMIN_TOOLS
from muster.bus.archive import export_log
from muster.bus.archive_file import read_archive
from muster.cli.bus_session import on_bus
from muster.cli.errors import refused
from muster.cli.machine import this_machine
from muster.cli.options import Output
from muster.core.instant import Instant, seconds_between
from muster.schemas.devices import AllocationPolicy, AttachmentPhase, ComposabilitySpec, RequestPhase, RequestView
from muster.schemas.facts.device import DeviceAttached
from muster.schemas.subjects import cluster_log, parse_subject
from muster_tools.bench.figures import print_figures
from muster_tools.bench.fresh_stack import FreshStack, Progress, Say, fresh_stack, run_in_fresh_directory

FABRIC, GROUP, REQUEST = "bench", "bench", "bench"
MODEL = "NVIDIA-H100-SXM5-80GB"
GPUS_PER_NODE = 8
POLL_S = 0.5
READY_S_MAX = 60.0
SLACK = 4.0
"""Time limit of a run, as a multiple of the serial sum of median switches."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of the benchmark."""

    gpus: int
    limit: int
    """Maximum number of concurrent calls."""
    switch_s: float
    """Median time of one switch (log-normal, deviation of the logarithm `sigma`)."""
    sigma: float = 0.4
    seed: int = 1

    def settings(self) -> dict[str, object]:
        """Return the settings of the stack: nodes without GPUs, a pool with all GPUs, no scaling."""
        nodes = math.ceil(self.gpus / GPUS_PER_NODE)
        group = {
            "name": GROUP, "composable": True, "nodes": nodes, "nodes_min": nodes, "nodes_max": nodes, "gpus": 0,
            "gpus_max": GPUS_PER_NODE, "gpu_models": [MODEL], "fabric": FABRIC,
        }  # fmt: skip
        simulated = {
            "pool": {MODEL: self.gpus}, "switch_median_s": self.switch_s, "switch_sigma": self.sigma,
            "seed": self.seed, "limit": self.gpus,
        }  # fmt: skip
        return {
            "fleet": {"nodes": 0},
            "scaling": {"mode": "off", "groups": [group]},
            "fabrics": [{"name": FABRIC, "driver": "fm", "limit": self.limit, "simulated": simulated}],
        }


@dataclass(frozen=True, slots=True)
class AttachReport:
    """Results; times in seconds."""

    gpus: int
    limit: int
    wall_s: float
    """From the fact that accepted the request to the fact of the last attached device."""
    accepted_s: float
    """From the HTTP request to its acceptance."""
    serial_s: float
    """Sum of all switches."""
    longest_s: float
    lower_bound_s: float
    """Lower bound for the same switches on `limit` slots; see the module."""
    list_schedule_s: float
    """List schedule of the same switches on `limit` slots; see the module."""
    wall_to_lower_bound: float
    wall_to_list_schedule: float
    serial_to_wall: float
    call_overhead_s_median: float
    """Time of a call from its intent to its outcome in the log, less its switch."""
    most_at_once: int
    """Maximum number of concurrent switches."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Times read from the log."""

    accepted: Instant
    attachments: tuple[tuple[Instant, Instant, str], ...]
    """(intent, outcome, device) of each device."""


async def measure(plan: Plan, directory: Path, *, say: Say, progress: Progress) -> AttachReport:
    """Start a stack in `directory`, attach all GPUs, stop it. Raises CliError, StartFailedError, StateDirError."""
    async with fresh_stack(directory, plan.settings(), split=True, say=say, what="a stack of empty nodes") as stack:
        await _ready(stack, plan)
        say(f"attaching {plan.gpus} GPUs, {plan.limit} at a time")
        started_s = time.monotonic()
        spec = ComposabilitySpec(model=MODEL, size=plan.gpus, allocation_policy=AllocationPolicy.DIFFERENTNODE)
        view = await stack.muster.compose(spec, name=REQUEST)
        accepted_s = time.monotonic() - started_s
        await _attached(stack, plan, view, progress)
        switches = await _switches(stack, plan)
        moments = await _moments(stack, directory / "bench.log")
    return report_of(plan, switches, moments, accepted_s=accepted_s)


class Switch(BaseModel):
    """One operation of the manager; begun and due in nanoseconds."""

    begun: int
    due: int
    device: dict[str, object]

    @property
    def took_s(self) -> float:
        """Return the duration of the switch."""
        return seconds_between(self.begun, self.due)


class Operations(BaseModel):
    """The manager's page of operations."""

    operations: list[Switch]


def report_of(plan: Plan, switches: Sequence[Switch], moments: Moments, *, accepted_s: float) -> AttachReport:
    """Compute the figures. Pure."""
    ordered = [switch.took_s for switch in sorted(switches, key=lambda switch: switch.begun)]
    by_device = {str(switch.device["device_id"]): switch.took_s for switch in switches}
    overheads = sorted(
        seconds_between(intent, outcome) - by_device[device] for intent, outcome, device in moments.attachments
    )
    wall_s = seconds_between(moments.accepted, max(outcome for _, outcome, _ in moments.attachments))
    serial_s, lower_s, listed_s = sum(ordered), lower_bound_s(ordered, plan.limit), list_schedule_s(ordered, plan.limit)
    return AttachReport(
        gpus=plan.gpus,
        limit=plan.limit,
        wall_s=round(wall_s, 3),
        accepted_s=round(accepted_s, 3),
        serial_s=round(serial_s, 3),
        longest_s=round(max(ordered), 3),
        lower_bound_s=round(lower_s, 3),
        list_schedule_s=round(listed_s, 3),
        wall_to_lower_bound=round(wall_s / lower_s, 3),
        wall_to_list_schedule=round(wall_s / listed_s, 3),
        serial_to_wall=round(serial_s / wall_s, 2),
        call_overhead_s_median=round(overheads[len(overheads) // 2], 4),
        most_at_once=most_at_once(switches),
    )


def lower_bound_s(takes_s: Sequence[float], lanes: int) -> float:
    """Return the lower bound of every schedule of these switches on this many slots."""
    return max(*takes_s, sum(takes_s) / lanes)


def list_schedule_s(takes_s: Sequence[float], lanes: int) -> float:
    """Return when the last switch ends if each starts on the first free slot, in this order."""
    free_at = [0.0] * lanes
    end = 0.0
    for take_s in takes_s:
        ends_at = free_at[0] + take_s
        heapreplace(free_at, ends_at)
        end = max(end, ends_at)
    return end


def most_at_once(switches: Sequence[Switch]) -> int:
    """Return the maximum number of concurrent switches."""
    steps = sorted([(each.begun, 1) for each in switches] + [(each.due, -1) for each in switches])
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


async def _ready(stack: FreshStack, plan: Plan) -> None:
    """Wait for all nodes and for the composer's view of the pool. Raises CliError."""
    deadline_s = time.monotonic() + READY_S_MAX
    nodes = math.ceil(plan.gpus / GPUS_PER_NODE)
    while time.monotonic() < deadline_s:
        there = len(await stack.muster.nodes())
        pools = [pool.free for fabric in await stack.muster.fabrics() for pool in fabric.pool]
        if there == nodes and sum(pools) == plan.gpus:
            return
        await asyncio.sleep(POLL_S)
    raise refused(f"after {READY_S_MAX:g} s {there} of {nodes} nodes have joined, and the pool has {sum(pools)} GPUs")


async def _attached(stack: FreshStack, plan: Plan, view: RequestView | None, progress: Progress) -> None:
    """Wait until every device is attached to its node. Raises CliError."""
    deadline_s = time.monotonic() + READY_S_MAX + SLACK * plan.gpus * plan.switch_s
    before = {AttachmentPhase.REQUESTED, AttachmentPhase.ATTACHING}
    while time.monotonic() < deadline_s:
        if view is not None:
            if view.phase in (RequestPhase.REFUSED, RequestPhase.ENDED) or view.error:
                raise refused(f"the request is {view.phase}: {view.error}")
            there = sum(device.phase not in before for device in view.resources)
            progress(there)
            if there == plan.gpus:
                return
        await asyncio.sleep(POLL_S)
        view = await stack.muster.composability_request(REQUEST)
    raise refused(f"not attached after {SLACK:g} times the serial sum; see the logs in {stack.directory}")


async def _switches(stack: FreshStack, plan: Plan) -> list[Switch]:
    """Return the manager's operations from its own page. Raises CliError unless there is one switch per GPU."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{stack.settings.fabrics[0].url}/_operations")
    found = Operations.model_validate_json(answer.content).operations
    if len(found) != plan.gpus:
        raise refused(f"{len(found)} switches for {plan.gpus} GPUs: the run is not a valid measurement")
    return found


async def _moments(stack: FreshStack, file: Path) -> Moments:
    """Read the times from the cluster's log. Raises CliError."""
    log = cluster_log(stack.settings.cluster)
    await on_bus(stack.settings, ADMIN_TOOLS, lambda client: export_log(client, log, file))
    accepted = Instant(0)
    intents: dict[str, Instant] = {}
    outcomes: list[tuple[Instant, Instant, str]] = []
    for message in await asyncio.to_thread(lambda: list(read_archive(file, log))):
        parsed = parse_subject(log, message.subject)
        if parsed is None:
            continue
        at = Instant(message.time)
        match parsed.kind, parsed.name:
            case "composability", "accepted":
                accepted = at
            case "attachment", "attaching":
                intents[parsed.subject_id] = at
            case "attachment", "attached":
                device = DeviceAttached.model_validate_json(message.content)
                outcomes.append((intents[parsed.subject_id], at, device.device_id))
    return Moments(accepted, tuple(outcomes))


def run(plan: Plan, form: Output) -> None:
    """Run the benchmark and print its results. Raises CliError."""
    machine = this_machine()

    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, AttachReport]:
        return measure(plan, directory, say=say, progress=progress)

    found = run_in_fresh_directory(run_once, total=plan.gpus, what="attached")
    document = {**asdict(found), "switch_s_median": plan.switch_s, "switch_sigma": plan.sigma, "seed": plan.seed}
    print_figures(machine, document, _rows(found), form=form)


def _rows(found: AttachReport) -> list[tuple[str, str]]:
    bound = f"{found.lower_bound_s:.2f} s: no schedule of these switches on {found.limit} slots is shorter"
    listed = f"{found.list_schedule_s:.2f} s: each on the first free slot, without any delay"
    return [
        (
            "attached",
            f"{found.gpus} GPUs on one fabric, concurrency at most {found.limit} ({found.most_at_once} reached)",
        ),
        ("measured", f"{found.wall_s:.2f} s from accepted to the last one attached"),
        ("lower bound", f"{bound}; measured is {found.wall_to_lower_bound:.3f} x"),
        ("list schedule", f"{listed}; measured is {found.wall_to_list_schedule:.3f} x"),
        ("serial", f"{found.serial_s:.2f} s; measured is {found.serial_to_wall:.1f} times faster"),
        ("longest switch", f"{found.longest_s:.2f} s"),
        ("overhead of a call", f"{found.call_overhead_s_median * 1000:.0f} ms median, from intent to outcome"),
        ("accepted after", f"{found.accepted_s * 1000:.0f} ms"),
    ]
