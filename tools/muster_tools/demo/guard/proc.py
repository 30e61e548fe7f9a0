"""What Linux tells of a process's memory: the peak is counted by the kernel, so no peak is missed between two looks."""

from pathlib import Path

KIB_PER_MIB = 1024.0
_RESET_PEAK = "5"  # proc(5): clear_refs


def peak_mib(pid: int) -> float:
    """Peak resident memory since `reset_peak`, or since the start (VmHWM). Raises OSError."""
    return _field(pid, "VmHWM") / KIB_PER_MIB


def rss_mib(pid: int) -> float:
    """Resident memory now (VmRSS). Raises OSError."""
    return _field(pid, "VmRSS") / KIB_PER_MIB


def reset_peak(pid: int) -> None:
    """Count the peak from now on. Raises OSError."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def _field(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1])
    raise OSError(f"process {pid} tells no {name}")
