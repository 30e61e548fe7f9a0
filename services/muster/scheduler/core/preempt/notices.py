"""The facts of a preemption: notices to the preempted jobs, and the reservation for the preemptor."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster.cluster.ledger import Ledger
from muster.core import Draft, after
from muster.placement.relief import Way
from muster.scheduler.core.preempt.candidates import Candidates
from muster.scheduler.core.preempt.rules import Part, Rule, Wanting
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.job import JobReserved, JobResizeRequested, JobStopRequested, StopReason
from muster.schemas.job import Slot


class _Asked(NamedTuple):
    """A notice to one job. `given` has the slots that it gives up; None: all, it is stopped."""

    record: JobRecord
    rule: Rule
    given: tuple[Slot, ...] | None


def notices(
    wanting: Wanting,
    way: Way,
    parts: Mapping[str, Part],
    rules: Mapping[str, Rule],
    *,
    candidates: Candidates,
    ledger: Ledger,
) -> list[Draft]:
    """Return `stop-requested` and `resize-requested` of the targets, then `reserved`, to be written together.

    `rules` has the rule by which each part was taken. Empty if all targets leave anyway: then it is enough to wait.
    """
    asked = list(_asked(way, parts, rules))
    if not asked:
        return []
    record = wanting.record
    together = f"way-{record.id}-{record.attempt}"
    drafts = [
        _shrink(one, record, together) if one.given is not None else _stop(one, record, candidates, together)
        for one in asked
    ]
    grace_s = max(one.record.job.spec.grace_s for one in asked)
    names = ", ".join(one.record.job.spec.name for one in asked[:_NAMED_MAX])
    more = f" and {len(asked) - _NAMED_MAX} more" if len(asked) > _NAMED_MAX else ""
    payload = JobReserved(
        attempt=record.attempt,
        slots=tuple(ledger.slot_of(hold.slot) for hold in way.holds),
        starts_at=after(candidates.now, grace_s),
        victims=tuple(one.record.id for one in asked),
        basis=f"{names}{more} make way, within {grace_s:g} s",
    )
    return [*drafts, Draft("job", record.id, "reserved", payload, (record.last_fact,), record.job.trace, together)]


_NAMED_MAX = 3
"""Targets that are named in a text for users; the fact lists all of them."""


def _asked(way: Way, parts: Mapping[str, Part], rules: Mapping[str, Rule]) -> Iterable[_Asked]:
    """Yield the notices by job, in the order in which the parts were taken. A stopped job is not also shrunk."""
    ended = {parts[key].record.id for key in way.victims if parts[key].is_whole}
    given: dict[str, list[str]] = {}
    for key in way.victims:
        if not parts[key].is_leaving:
            given.setdefault(parts[key].record.id, []).append(key)
    for job_id, keys in given.items():
        first = parts[keys[0]]
        if job_id in ended:
            whole = next(key for key in keys if parts[key].is_whole)
            yield _Asked(first.record, rules[whole], None)
        else:
            yield _Asked(first.record, rules[keys[0]], tuple(slot for key in keys for slot in parts[key].slots))


def _stop(asked: _Asked, record: JobRecord, candidates: Candidates, together: str) -> Draft:
    victim = asked.record
    lost_s = candidates.lost_s(victim)
    payload = JobStopRequested(
        attempt=victim.attempt,
        reason=StopReason.PREEMPTED,
        grace_s=victim.job.spec.grace_s,
        made_way_for=record.id,
        detail=f"{asked.rule.value}: makes way for {_named(record)}; about {lost_s:.0f} s of work are lost",
    )
    return _draft(victim, record, "stop-requested", payload, together)


def _shrink(asked: _Asked, record: JobRecord, together: str) -> Draft:
    victim, given = asked.record, asked.given or ()
    payload = JobResizeRequested(
        attempt=victim.attempt,
        slots=tuple(slot for slot in victim.slots if slot not in given),
        grace_s=victim.job.spec.grace_s,
        made_way_for=record.id,
    )
    return _draft(victim, record, "resize-requested", payload, together)


def _draft(
    victim: JobRecord, record: JobRecord, name: str, payload: JobStopRequested | JobResizeRequested, together: str
) -> Draft:
    return Draft("job", victim.id, name, payload, (record.last_fact,), victim.job.trace, together)


def _named(record: JobRecord) -> str:
    return f"{record.job.spec.name} of queue {record.queue}"
