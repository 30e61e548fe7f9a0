"""Describe the machine of a measurement."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a measurement. cores: available to this process. load: 1-minute average before the measurement."""

    cores: int
    cpu: str
    memory_mib: int
    system: str
    python: str
    muster: str
    load: float


def this_machine() -> Machine:
    """Return the description of this machine."""
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        cpu=_cpu_model(),
        memory_mib=psutil.virtual_memory().total // 2**20,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        muster=version("gpumuster"),
        load=round(psutil.getloadavg()[0], 2),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()  # no /proc: not Linux
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def sentence(machine: Machine) -> str:
    """Return the description in one line."""
    return (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_mib / 1024:.0f} GiB, {machine.system}, "
        f"Python {machine.python}, load {machine.load}"
    )
