"""Limit of two concurrent LISTs: fifty LISTs at once with and without it, on an older and on this version."""

from muster_tools.demo.guard.burst import Burst, burst
from muster_tools.demo.guard.result import Measure, Story
from muster_tools.demo.guard.stage import READER, USERS, fill, let_read, observing, stage
from muster_tools.local_kubernetes.options import PlaneOptions


async def limits(*, emulated_version: str) -> Story:
    """Measure one version without and with flow control, each on a fresh API server, which never returns memory."""
    without = await measured(emulated_version=emulated_version, limited=False)
    with_limit = await measured(emulated_version=emulated_version, limited=True)
    title = f"version {emulated_version}, emulated" if emulated_version else "this version, streaming encoding"
    streams = (
        "from 1.33 on streaming encoding alone hides most of it"
        if not emulated_version
        else "before 1.33 each LIST is encoded as a whole in memory"
    )
    return Story(
        name=f"limits-{emulated_version or 'native'}",
        title=f"50 LISTs of secrets at once ({title})",
        before="no limit",
        after="two at a time (muster guard apply)",
        measures=measures(without, with_limit),
        conclusion=f"{streams}; peak {without.peak_mib:.0f} MiB without, {with_limit.peak_mib:.0f} MiB with the limit",
    )


async def measured(*, emulated_version: str, limited: bool) -> Burst:
    """Measure a burst at a fresh API server."""
    async with stage(PlaneOptions(kwok=False, emulated_version=emulated_version, users=USERS)) as plane:
        await let_read(plane)
        await fill(plane)
        async with observing(plane) as observer:
            if limited:
                await observer.keep()
        return await burst(plane, READER)


def measures(before: Burst, after: Burst) -> tuple[Measure, ...]:
    """Return the figures of two bursts."""
    return (
        Measure("peak_mib", "peak memory of the API server, MiB", before.peak_mib, after.peak_mib),
        Measure("grown_mib", "growth of memory by the LISTs, MiB", _grown(before), _grown(after)),
        Measure("after_mib", "memory 5 s after, MiB", before.after_mib, after.after_mib),
        Measure("idle_mib", "memory before, MiB", before.idle_mib, after.idle_mib),
        Measure("answered", "LISTs answered", before.answered, after.answered),
        Measure("rejected", "LISTs rejected (429, Retry-After)", before.rejected, after.rejected),
        Measure("failed", "LISTs failed otherwise", before.failed, after.failed),
        Measure("executing_max", "LISTs executing concurrently, maximum", before.executing, after.executing),
        Measure("queued_max", "LISTs queued at once, maximum", before.queued, after.queued),
        Measure("seconds", "until the last answer, s", before.seconds, after.seconds),
    )


def _grown(one: Burst) -> float:
    return one.peak_mib - one.idle_mib
