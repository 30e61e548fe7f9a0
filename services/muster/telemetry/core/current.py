"""Who holds which GPU just now, and what it does: as every node was read last."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import Instant, seconds_between
from muster.schemas.telemetry import DeviceSample
from muster.telemetry.core.core import TelemetryCore


@dataclass(frozen=True, slots=True)
class Held:
    """One GPU of one job. part: of it, up to 1. idle_s: it has done nothing for so long; is_idle: that is too long."""

    job_id: str
    name: str
    team: str
    queue: str
    user: str
    node: str
    model: str
    device: DeviceSample
    part: float
    idle_s: float
    idle_since: Instant
    is_idle: bool


def held_now(core: TelemetryCore, now: Instant, *, team: str = "") -> Iterator[Held]:
    """Every GPU that a live job holds and that was read lately. team: only of this one. Work grows with them."""
    gap_s_max, idle_after_s = core.config.gap_s_max, core.config.idle_after_s
    for job_id, meter in core.meters.jobs.items():
        known = core.holdings.jobs.get(job_id)
        if known is None or job_id not in core.holdings.holding:
            continue
        spec, placed_at = known.job.spec, core.holdings.placed_at(job_id)
        if team and spec.team != team:
            continue
        for one in meter.devices.values():
            if one.newest is None or seconds_between(one.read_at, now) > gap_s_max or one.read_at < placed_at:
                continue
            idle_s = max(0.0, seconds_between(one.idle_since, now)) if one.idle_since else 0.0
            yield Held(
                job_id,
                spec.name,
                spec.team,
                known.queue,
                known.job.principal,
                one.node,
                one.model,
                one.newest,
                one.part,
                idle_s,
                one.idle_since,
                bool(one.idle_since) and idle_s >= idle_after_s,
            )
