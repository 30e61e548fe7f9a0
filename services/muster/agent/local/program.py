"""What a job's program is started with: its command, its variables, its place on disk. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.agent.core.local.orders import StartProcess

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
"""Variables of the agent that programs get as well. Never the rest: credentials may be among them."""
CHECKPOINT_FILE = "checkpoint"


@dataclass(frozen=True, slots=True)
class Program:
    """argv: empty if the job has no command. folder: of the attempt. output: file of what it prints."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    output: Path


def checkpoint_file(directory: Path, job_id: str) -> Path:
    """What a job writes, or touches, when it saved its work; the same for all its attempts."""
    return directory / job_id / CHECKPOINT_FILE


def program_of(
    order: StartProcess, *, directory: Path, environment: Mapping[str, str], secrets: Mapping[str, str] | None = None
) -> Program:
    """The program of one slot. secrets: variables of the job from files."""
    job_id, attempt = order.key
    slot, group = order.slot, order.spec.task_groups[order.slot.group]
    folder = directory / job_id / str(attempt)
    told = {
        "MUSTER_JOB": job_id,
        "MUSTER_ATTEMPT": str(attempt),
        "MUSTER_GROUP": group.name,
        "MUSTER_REPLICA": str(slot.replica),
        "MUSTER_NODE": slot.node,
        "MUSTER_CHECKPOINT": str(checkpoint_file(directory, job_id)),
        "MUSTER_RESUMED_S": f"{order.resumed_s:.0f}",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, slot.devices or slot.places)),
    }
    kept = {name: environment[name] for name in PASSED_ON if name in environment}
    output = folder / f"{group.name}-{slot.replica}.log"
    own = {**order.spec.pod.env, **(secrets or {})}
    return Program(group.command or order.spec.command, {**kept, **own, **told}, folder, output)
