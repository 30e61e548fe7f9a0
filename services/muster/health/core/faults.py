"""Turn fault signals into facts: the meaning by the rules, the jobs that held the device, the owners to notify."""

from collections.abc import Iterable, Sequence

from muster.core import NEVER, Draft, after
from muster.health.core.limits import JOBS_MAX, TEAMS_MAX
from muster.health.core.rules import Rule
from muster.health.core.signals import FaultSignal
from muster.health.core.state import DEVICE, NODE, State
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.health import FaultClass, FaultCleared, FaultObserved, FaultScope, HealthPhase
from muster.schemas.facts.operations import JobFault

_MENDED = (HealthPhase.HEALTHY, HealthPhase.VERIFYING)


def emit(state: State, room: int) -> list[Draft]:
    """Return facts for waiting signals, about `room` at most."""
    drafts: list[Draft] = []
    told = set[tuple[str, str]]()
    storms: dict[tuple[str, str], list[FaultSignal]] = {}
    for seen in state.signals.waiting():
        if len(drafts) + len(storms) >= room:
            break
        if seen.node not in state.nodes:
            state.signals.take(seen.node, seen.device, seen.code)
        elif _is_in_maintenance(state, seen):
            if seen.is_lasting:
                state.signals.park(seen)
            else:
                state.signals.take(seen.node, seen.device, seen.code)
        elif seen.is_over:
            drafts += _cleared(state, seen)
        elif seen.is_minor and not seen.is_lasting and seen.device:
            storms.setdefault((seen.node, seen.code), []).append(seen)
        else:
            drafts += _observed(state, (seen,), told)
    for together in storms.values():
        drafts += _observed(state, together, told)
    return drafts


def fault_draft(
    state: State,
    seen: FaultSignal,
    rule: Rule,
    *,
    more: Sequence[FaultSignal] = (),
    causes: tuple[str, ...] = (),
    teams: tuple[str, ...] = (),
) -> Draft:
    """Return `fault-observed` for a signal by its rule; `more` are other devices of the node in the same fact."""
    scope = rule.scope if seen.device else FaultScope.NODE
    jobs = tuple(dict.fromkeys(job for one in (seen, *more) for job in _jobs(state, one)))[:JOBS_MAX]
    known = (state.owners.team(job) for job in jobs)
    payload = FaultObserved(
        code=seen.code,
        fault_class=rule.fault_class,
        scope=scope,
        device=seen.device,
        more_devices=tuple(one.device for one in more),
        action=rule.action,
        running=rule.running,
        is_condition=seen.is_lasting,
        count=seen.count + sum(one.count for one in more),
        at=seen.at,
        detail=seen.detail[:TEXT_CHARS_MAX],
        because=rule.because,
        jobs=jobs,
        teams=(teams or tuple(dict.fromkeys(team for team in known if team)))[:TEAMS_MAX],
        store_only=rule.store_only or state.observes_only(seen.node),
    )
    return Draft(NODE, seen.node, "fault-observed", payload, causes, together=f"{seen.node} {seen.device} {seen.code}")


def _is_in_maintenance(state: State, seen: FaultSignal) -> bool:
    if state.is_in_maintenance(seen.node, seen.device):
        return True
    units = (state.units.get((NODE, seen.node)), state.units.get((DEVICE, seen.device)))
    return any(unit is not None and unit.phase is HealthPhase.REPAIRING for unit in units)


def _cleared(state: State, seen: FaultSignal) -> Iterable[Draft]:
    unit = state.unit_with(seen.node, seen.device, seen.code)
    if unit is None:
        state.signals.take(seen.node, seen.device, seen.code)
        return
    fault = unit.faults[seen.code, seen.device]
    payload = FaultCleared(code=seen.code, device=seen.device, evidence=seen.detail[:TEXT_CHARS_MAX], at=seen.at)
    yield Draft(NODE, seen.node, "fault-cleared", payload, (fault.fact,) if fault.fact else ())


def _observed(state: State, together: Sequence[FaultSignal], told: set[tuple[str, str]]) -> Iterable[Draft]:
    """Return one signal, or the same minor event of several devices of one node."""
    rule = state.rules_of(together[0].node).rule(together[0].code)
    fresh = []
    for seen in together:
        is_known = seen.is_lasting and state.unit_with(seen.node, seen.device, seen.code) is not None
        if rule is None or is_known or (not seen.is_lasting and is_burst(state, seen, rule)):
            state.signals.take(seen.node, seen.device, seen.code)
        else:
            fresh.append(seen)
    if rule is None or not fresh:
        return
    first = fresh[0]
    draft = fault_draft(state, first, rule, more=fresh[1:])
    yield draft
    assert isinstance(draft.payload, FaultObserved)
    if rule.fault_class is FaultClass.APPLICATION:
        for job in draft.payload.jobs:
            if (job, first.code) not in told and _is_notice_due(state, job, first, rule):
                told.add((job, first.code))
                yield _owner_notice(state, job, first, rule, draft.together)


def _owner_notice(state: State, job: str, seen: FaultSignal, rule: Rule, together: str) -> Draft:
    payload = JobFault(
        code=seen.code,
        node=seen.node,
        device=seen.device,
        detail=rule.because,
        at=seen.at,
        count=seen.count,
        team=state.owners.team(job),
        job_id=job,
    )
    return Draft("job", job, "fault-told", payload, together=together)


def _is_notice_due(state: State, job: str, seen: FaultSignal, rule: Rule) -> bool:
    notified_at = state.owners.notified_at(job, seen.code)
    return job in state.holds.jobs and (notified_at is None or after(notified_at, rule.burst_s) <= seen.at)


def is_burst(state: State, seen: FaultSignal, rule: Rule, *, across_repairs: bool = False) -> bool:
    """Return whether the device had the same fault so recently that this is the same one.

    A fault before a repair and passed checks is another one, unless the rule counts across repairs.
    """
    unit = state.node_unit(seen.node)
    if unit is None:
        return False
    device = state.units.get((DEVICE, seen.device))
    since = after(seen.at, -rule.burst_s)
    if not across_repairs:
        mended = (one.since for one in (unit, device) if one is not None and one.phase in _MENDED)
        since = max(since, *mended, NEVER)
    return any(
        mark.at > since and mark.code == seen.code and mark.device == seen.device for mark in reversed(unit.marks)
    )


def _jobs(state: State, seen: FaultSignal) -> tuple[str, ...]:
    if seen.jobs:
        return seen.jobs
    return state.holders(seen.node, seen.device)
