"""The answer to what teams used over the last days. Pure."""

from collections import defaultdict

from muster.core import Core, Instant
from muster.core.instant import NS_PER_S
from muster.schemas.base import Wire
from muster.schemas.usage import AskEnergy, Energy, EnergyRow
from muster.schemas.usage_words import EnergyBy
from muster.telemetry.core.accounts import S_PER_DAY, Account, added, day_of
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.sums import J_PER_KWH, S_PER_HOUR


def answer_energy(core: Core, ask: Wire, now: Instant) -> Energy:
    """To `energy`: what was reported, and what live jobs used since then."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskEnergy)
    first = day_of(now) - ask.days + 1
    rows: defaultdict[str, Account] = defaultdict(Account)
    for (team, queue), account in core.state.accounts.since(first).items():
        if ask.team in ("", team):
            rows[team if ask.by is EnergyBy.TEAM else queue].add(account)
    for job_id, meter in core.meters.jobs.items():
        if meter.job is None or ask.team not in ("", meter.job.job.spec.team):
            continue
        told = core.state.told.get(job_id)
        key = meter.job.job.spec.team if ask.by is EnergyBy.TEAM else meter.job.queue
        rows[key].add(added(meter.total().use(), None if told is None else told.reported.use))
    found = [_row(key, account) for key, account in rows.items()]
    found.sort(key=lambda row: (-row.energy_kwh, row.key))
    return Energy(
        at=now,
        since=max(0, first * S_PER_DAY * NS_PER_S),
        rows=tuple(found[: ask.limit]),
        total=len(found),
        energy_kwh=round(sum(account.energy_j for account in rows.values()) / J_PER_KWH, 4),
    )


def _row(key: str, account: Account) -> EnergyRow:
    return EnergyRow(
        key=key,
        energy_kwh=round(account.energy_j / J_PER_KWH, 4),
        gpu_hours=round(account.measured_s / S_PER_HOUR, 4),
        idle_gpu_hours=round(account.idle_s / S_PER_HOUR, 4),
    )
