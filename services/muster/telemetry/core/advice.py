"""A line or two to a job's owner on what its GPUs did. Pure.

Thresholds: SM activity under half is ineffective use, and 80 % is good (NVIDIA's guide to DCGM's profiling metrics).
The utilisation alone says only that something ran, also while a collective hangs.
"""

from collections.abc import Iterator, Sequence

from muster.schemas.facts.telemetry import DeviceUse, Use
from muster.telemetry.core.sums import S_PER_HOUR, share_pct

MEASURED_S_MIN = 300.0
"""GPU-seconds under which nothing is advised."""
IDLE_PCT = 25.0
BUSY_PCT_LOW, BUSY_PCT_HIGH = 30.0, 60.0
SM_PCT_LOW, SM_PCT_HIGH = 30.0, 50.0
TENSOR_PCT_LOW = 5.0
MEMORY_PCT_LOW = 25.0
APART_PCT = 40.0


def advise(use: Use, devices: Sequence[DeviceUse]) -> tuple[str, ...]:
    """What its owner could do; one line that all is well, if it is; nothing of a job that was hardly measured."""
    if use.measured_s < MEASURED_S_MIN:
        return ()
    found = tuple(_lines(use, devices))
    return found or ("its GPUs are used well",)


def _lines(use: Use, devices: Sequence[DeviceUse]) -> Iterator[str]:
    idle, busy = share_pct(use.idle_s, use.measured_s) or 0.0, share_pct(use.busy_s, use.measured_s) or 0.0
    sm = share_pct(use.sm_active_s, use.sm_measured_s)
    if idle >= IDLE_PCT:
        yield (
            f"GPUs did nothing for {idle:.0f} % of the time ({use.idle_s / S_PER_HOUR:.1f} GPU-hours): ask for fewer, "
            "or end the job when its work is done"
        )
    elif busy < BUSY_PCT_LOW:
        yield f"something ran on the GPUs {busy:.0f} % of the time: see whether they wait for data or for the CPUs"
    if sm is not None and busy >= BUSY_PCT_HIGH and sm < SM_PCT_LOW:
        yield (
            f"busy {busy:.0f} % of the time, but {sm:.0f} % of the SMs were active: kernels are small, or wait for "
            "each other or the network; try larger batches, fewer GPUs, or communication that overlaps"
        )
    tensor = share_pct(use.tensor_active_s, use.tensor_measured_s)
    if tensor is not None and sm is not None and sm >= SM_PCT_HIGH and tensor < TENSOR_PCT_LOW:
        yield f"tensor cores were active {tensor:.0f} % of the time: see whether the work could run in lower precision"
    yield from _apart(devices)
    memory = share_pct(use.memory_mib_max, use.memory_total_mib)
    if memory is not None and 0 < memory < MEMORY_PCT_LOW:
        yield (
            f"at most {use.memory_mib_max:,} of {use.memory_total_mib:,} MiB of a GPU's memory were used: larger "
            "batches would fit, or a part of a GPU would do"
        )


def _apart(devices: Sequence[DeviceUse]) -> Iterator[str]:
    """Whether some of the GPUs do much less than others."""
    shares = [(share_pct(one.use.busy_s, one.use.measured_s) or 0.0, one) for one in devices if one.use.measured_s]
    if len(shares) < 2:
        return
    (least, slow), (most, _) = min(shares, key=lambda pair: pair[0]), max(shares, key=lambda pair: pair[0])
    if most - least >= APART_PCT:
        yield f"the GPUs differ: {slow.node}/{slow.index} was busy {least:.0f} % of the time, another one {most:.0f} %"
