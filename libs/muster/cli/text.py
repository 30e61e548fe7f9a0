"""Format durations, GPU amounts and node lists. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise

from muster.cli.moments import clock
from muster.core.instant import NS_PER_S
from muster.schemas.job import Phase
from muster.schemas.views import JobView

SHORT_PHASE = {
    Phase.SUBMITTED: "SU",
    Phase.QUEUED: "PD",
    Phase.PLACED: "CF",
    Phase.RUNNING: "R",
    Phase.STOPPING: "CG",
    Phase.SUCCEEDED: "CD",
    Phase.FAILED: "F",
    Phase.CANCELLED: "CA",
    Phase.TIMED_OUT: "TO",
}
"""State codes of squeue."""


def duration(seconds: float) -> str:
    """Format a duration as squeue: `[days-]hours:minutes:seconds`; below a minute in tenths of a second."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f}s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def short(seconds: float) -> str:
    """Format a short duration in us, ms or s, with three digits."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def gpus(milli: int | None) -> str:
    """Format thousandths of a GPU as GPUs; `-` for None."""
    return "-" if milli is None else f"{milli / 1000:g}"


def held_gpus(job: JobView) -> str:
    """Format the requested GPUs of a job; `8/32` for an elastic job that has fewer now."""
    held = sum(slot.gpu_milli_held for slot in job.slots)
    asked = gpus(job.gpu_milli)
    return asked if not held or held == job.gpu_milli or job.phase.is_terminal else f"{gpus(held)}/{asked}"


def time_in_phase_s(job: JobView, now_ns: int) -> float:
    """Return the value of squeue's TIME: the run time, or the time since submission of a pending job."""
    end = job.ended_at or now_ns
    return max(0, end - (job.running_at or job.submitted_at or end)) / NS_PER_S


def place_or_reason(job: JobView, *, now_ns: int) -> str:
    """Return squeue's NODELIST(REASON), with the reserved start of a job."""
    if job.nodes:
        return node_list(job.nodes)
    starts = f"starts {clock(job.reserved_at, now_ns=now_ns)}" if job.reserved_at else ""
    told = ", ".join(part for part in (job.reason, starts) if part)
    return f"({told})" if told else ""


def node_list(names: Sequence[str], *, width: int = 60) -> str:
    """Fold node names as Slurm does, `gpu-[0001-0004,0009]`; cut to `width` characters."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in dict.fromkeys(names):
        match = re.fullmatch(r"(.*?)(\d{1,9})", name)
        groups.setdefault((match[1], len(match[2])) if match else (name, 0), []).append(int(match[2]) if match else 0)
    text = ",".join(_folded(prefix, digits, sorted(numbers)) for (prefix, digits), numbers in groups.items())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _folded(prefix: str, digits: int, numbers: list[int]) -> str:
    if not digits:
        return prefix
    cuts = [0, *(at for at, (one, two) in enumerate(pairwise(numbers), start=1) if two != one + 1), len(numbers)]
    runs = [(numbers[start], numbers[end - 1]) for start, end in pairwise(cuts)]
    told = [f"{a:0{digits}}" if a == b else f"{a:0{digits}}-{b:0{digits}}" for a, b in runs]
    return f"{prefix}{told[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(told)}]"
