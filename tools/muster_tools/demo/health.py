"""`muster demo health`: a GPU falls off the bus under a job of 16 GPUs, and a node fails a job's pre-flight checks.

It runs on a fresh stack with simulated exporters; the facts are read from the log afterwards.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import JsonValue

from muster.bus.access import ADMIN_TOOLS
from muster.bus.archive import export_log
from muster.bus.archive_file import read_archive
from muster.bus.clock import SystemTime
from muster.cli import output as printed
from muster.cli.bus_session import on_bus
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.core.instant import seconds_between
from muster.schemas.facts.health import FaultObserved, HealthMoved
from muster.schemas.facts.operations import NodeActionRequested, PreflightFailed
from muster.schemas.job import JobSpec, Phase, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.schemas.subjects import cluster_log, parse_subject
from muster.stack.control import StartFailedError
from muster.stack.state_dir import StateDirError
from muster_tools.bench.fresh_stack import FreshStack, fresh_stack
from muster_tools.demo.stage import TEAM, DemoFailedError, Stage, require

GPUS, NODES = 8, 8
GANG_NODES = 2
INTERVAL_S = 1.0
BAD_CHECK = "gpu-health"
XID = 79
SHOWN = frozenset(
    {
        "queued", "placed", "running", "stop-requested", "preflight-failed", "preflight-passed",
        "fault-observed", "suspect", "withhold-requested", "withheld", "quarantined", "repairing",
        "action-requested", "action-ended", "verifying", "checks-reported", "healthy", "released",
    }
)  # fmt: skip
Story = Callable[[FreshStack, Stage], Awaitable["tuple[str, str, int]"]]
"""Runs a demonstration; returns its job, its node, and its start time."""


@dataclass(frozen=True, slots=True)
class Told:
    """One fact of the demonstration. at_s: since its start."""

    at_s: float
    writer: str
    subject: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class Played:
    """Result of one demonstration. problem: reason of a failure, "" if it passed."""

    name: str
    title: str
    seconds: float
    problem: str
    facts: tuple[Told, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """Return {name, title, passed, seconds, problem, facts: [...]}."""
        facts: list[JsonValue] = [
            {
                "at_s": one.at_s,
                "writer": one.writer,
                "subject": one.subject,
                "name": one.name,
                "detail": one.detail,
            }
            for one in self.facts
        ]
        return {
            "name": self.name,
            "title": self.title,
            "passed": not self.problem,
            "seconds": round(self.seconds, 2),
            "problem": self.problem,
            "facts": facts,
        }


def run(form: Output) -> None:
    """Run both and print the results. Raises CliError (refused) unless both passed."""
    directory = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    try:
        played = asyncio.run(_in(directory))
    except (StartFailedError, StateDirError, DemoFailedError) as error:
        raise refused(str(error)) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if form is Output.JSON:
        printed.emit_json([one.to_json() for one in played])
    else:
        for one in played:
            print_line()
            print_line(f"{one.title}: {one.problem or 'passed'}, {one.seconds:.1f} s")
            rows = ((f"{fact.at_s:+.2f}", fact.writer, fact.subject, fact.name, fact.detail) for fact in one.facts)
            printed.table(("SECONDS", "WHO", "OF", "SAID", ""), rows, right=("SECONDS",))
    failed = [one.name for one in played if one.problem]
    if failed:
        raise refused(f"failed: {', '.join(failed)}")


def settings(bad_node: str) -> dict[str, object]:
    """Return the settings of the stack: short times, and one node that fails a check until it is rebooted."""
    return {
        "fleet": {"nodes": NODES, "gpus_per_node": GPUS},
        "simulation": {
            "start_s": 0.1, "job_failure_share": 0.0, "telemetry_interval_s": INTERVAL_S, "output_interval_s": 0,
        },
        "telemetry": {"interval_s": INTERVAL_S},
        "preflight": {"simulated": {"check_s": 0.5, "action_s": 2.0, "bad_nodes": {bad_node: BAD_CHECK}}},
        "health": {"steady_s": 3.0},
    }  # fmt: skip


async def xid(stack: FreshStack, stage: Stage) -> tuple[str, str, int]:
    """Inject XID 79 on one GPU of a running gang: it runs elsewhere without a retry; the node returns after checks."""
    job_id = (await stack.muster.submit(_gang("sixteen-gpus", preflight="none"))).id
    sick = (await stage.running(job_id)).nodes[-1]
    base = stack.settings.telemetry.url.partition("/nodes/")[0]
    began = SystemTime().wall()
    async with httpx.AsyncClient(trust_env=False) as client:
        fault = {"node": sick, "gpu": 3, "fault": "xid", "value": XID}
        (await client.post(f"{base}/_faults", json=fault)).raise_for_status()

    async def is_elsewhere() -> bool:
        job = await stack.muster.get(job_id)
        return job.phase is Phase.RUNNING and sick not in job.nodes

    await stage.until("the gang runs elsewhere", is_elsewhere)
    require(not (await stack.muster.get(job_id)).retries_used, "the gang used a retry")
    await _usable(stage, sick)
    await stage.end(job_id)
    return job_id, sick, began


def preflight_of(bad_node: str) -> Story:
    """Return the demonstration of a node that fails a job's checks."""

    async def preflight(stack: FreshStack, stage: Stage) -> tuple[str, str, int]:
        """Run a gang on all nodes but one: checks fail on the bad node, the gang avoids it, the node is repaired."""
        began = SystemTime().wall()
        spec = _gang("checked-first", preflight="quick", replicas=NODES - 1)
        job_id = (await stack.muster.submit(spec)).id
        await stage.running(job_id)
        job = await stack.muster.get(job_id)
        require(job.attempt > 1, "the checks did not fail")
        require(not job.retries_used, "the gang used a retry")
        require(bad_node not in job.nodes, "it runs on the node that failed its checks")
        await _usable(stage, bad_node)
        await stage.end(job_id)
        return job_id, bad_node, began

    return preflight


def _gang(name: str, *, preflight: str, replicas: int = GANG_NODES) -> JobSpec:
    return JobSpec(
        name=name,
        team=TEAM,
        task_groups=(TaskGroup(gpus=GPUS, replicas=replicas, cpu_milli=1_000, memory_mib=1_024),),
        labels={RUN_S: "3600", EXIT_CODE: "0"},
        retries=0,
        preflight=preflight,
    )


async def _usable(stage: Stage, name: str) -> None:
    async def is_back() -> bool:
        node = await stage.node(name)
        return node is not None and node.usable

    await stage.until(f"node {name} is used again", is_back)


async def _in(directory: Path) -> list[Played]:
    bad = "gpu-0001"
    stories: tuple[tuple[str, str, Story], ...] = (
        ("xid", f"XID {XID} under a job of 16 GPUs", xid),
        ("preflight", "a node fails a job's checks", preflight_of(bad)),
    )
    played = []
    async with fresh_stack(directory, settings(bad), split=False, say=print_note) as stack:
        stage = Stage(stack.muster, "")
        await stage.set_up()

        async def is_whole() -> bool:
            return sum(node.usable for node in await stack.muster.nodes()) == NODES

        await stage.until("all nodes are usable", is_whole)
        for name, title, story in stories:
            started_s, problem = time.monotonic(), ""
            job_id, node, began = "", "", 0
            try:
                job_id, node, began = await story(stack, stage)
            except DemoFailedError as error:
                problem = str(error)
            seconds = time.monotonic() - started_s
            facts = await _told(stack, directory / "demo.log", {job_id, node} - {""}, began)
            played.append(Played(name, title, seconds, problem, facts))
    return played


async def _told(stack: FreshStack, file: Path, subjects: set[str], began: int) -> tuple[Told, ...]:
    """Return the facts of these subjects since `began`."""
    log = cluster_log(stack.settings.cluster)
    await on_bus(stack.settings, ADMIN_TOOLS, lambda client: export_log(client, log, file))
    found = []
    for message in await asyncio.to_thread(lambda: list(read_archive(file, log))):
        parsed = parse_subject(log, message.subject)
        is_meant = parsed is not None and parsed.subject_id in subjects and parsed.name in SHOWN
        if parsed is not None and is_meant and message.time >= began:
            at_s = round(seconds_between(began, message.time), 3)
            detail = _words(parsed.name, message.content)
            found.append(Told(at_s, parsed.writer, parsed.subject_id, parsed.name, detail))
    return tuple(found)


def _words(name: str, body: bytes) -> str:
    match name:
        case "fault-observed":
            fault = FaultObserved.model_validate_json(body)
            return f"{fault.code}: {fault.because}"
        case "action-requested":
            return NodeActionRequested.model_validate_json(body).action.value
        case "preflight-failed":
            return PreflightFailed.model_validate_json(body).reason
        case "healthy" | "quarantined":
            return HealthMoved.model_validate_json(body).because
        case _:
            return ""
