"""Pre-flight verdicts, a part of the health core (see `part.py`): reports of the agent become `preflight-passed` and
`preflight-failed`.

A failed check counts at once, passes when all is reported or the plan's limit is over. A check that could not run is
neither pass nor failure: the plan says whether the job passes with a warning.
"""

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from muster.core import NEVER, Draft, Fact, Instant, after, seconds_between
from muster.core.folding import Folds
from muster.schemas.base import TEXT_CHARS_MAX, Payload
from muster.schemas.facts.job import JobPlaced, PodsStarted
from muster.schemas.facts.operations import (
    CheckOutcome,
    CheckResult,
    CheckScope,
    ChecksReported,
    PreflightFailed,
    PreflightPassed,
    PreflightPlan,
    PreflightState,
)
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME

GANG_BLAMED_MAX = 4
"""Nodes of a gang that are all avoided when a check of the gang fails without a culprit; of a larger gang none is:
a hundred good nodes would be lost to one bad link, and idle-time checks find it."""
SLOW_SHARE = 0.9
"""Part of the best value below which a node of a gang is blamed."""


def blamed(plan: PreflightPlan, failed: Sequence[CheckResult], nodes: Collection[str]) -> tuple[str, ...]:
    """Return the nodes that the job must avoid, sorted; () if unknown.

    A check of a single node blames it. A check of the gang fails everywhere when one node is bad: then the nodes that
    were slower than the others are blamed, otherwise all of a small gang.
    """
    together = {order.check for order in plan.checks if order.scope is CheckScope.GANG}
    alone = {result.node for result in failed if result.check not in together}
    if alone:
        return tuple(sorted(alone))
    suspects = {result.node for result in failed}
    if len(suspects) < len(nodes) or len(suspects) <= GANG_BLAMED_MAX:
        return tuple(sorted(_slower(failed) or suspects))
    return tuple(sorted(_slower(failed)))


def describe_result(result: CheckResult, *, more: int = 0) -> str:
    """Return a description of one result, and of how many more there are."""
    measured = ""
    if result.value is not None:
        asked = "" if result.least is None else f" of {result.least:g}"
        measured = f" {result.value:g}{asked} {result.unit}".rstrip()
    verb = "could not run" if result.outcome is CheckOutcome.CANNOT_RUN else "failed"
    parts = (result.code, result.device, result.detail)
    text = f"{result.check} {verb} on {result.node}{measured}"
    if any(parts):
        text += ": " + " ".join(part for part in parts if part)
    return (f"{text} (and {more} more)" if more > 0 else text)[:TEXT_CHARS_MAX]


def _slower(failed: Sequence[CheckResult]) -> set[str]:
    """Return the nodes that measured distinctly less than the best."""
    values = [result.value for result in failed if result.value is not None]
    most = max(values, default=0.0)
    return {one.node for one in failed if one.value is not None and one.value < SLOW_SHARE * most}


REPORT_S = 10.0
"""After the plan's limit, for the report of checks that ended in time."""
FAILED_MAX = 100
"""Results in a verdict; the agent's facts have all."""
WARNINGS_MAX = 20
OVER = (
    "preflight-passed", "preflight-failed", "pods-exited", "stop-requested", "queued", "returned",
    *(phase.value for phase in Phase if phase.is_terminal),
)  # fmt: skip
"""Facts after which no verdict on the attempt is needed."""


@dataclass(slots=True, kw_only=True)
class _Checked(PreflightState):
    """An attempt without a verdict."""

    trace: str

    @property
    def deadline(self) -> Instant:
        """Return when to stop waiting for reports."""
        return after(self.started_at, self.plan.limit_s + REPORT_S)

    def unreported(self) -> Iterator[CheckResult]:
        """Yield results for checks without a report: they count as not run."""
        reported = {one.node for one in self.results}
        for node in self.nodes:
            for order in self.plan.checks if node not in reported else ():
                detail = "nothing was reported in time"
                yield CheckResult(node=node, check=order.check, outcome=CheckOutcome.CANNOT_RUN, detail=detail)


class PreflightVerdicts:
    """Pre-flight verdicts."""

    FOLDS = Folds["PreflightVerdicts", None]()

    def __init__(self) -> None:
        self._jobs: dict[str, _Checked] = {}
        self._ready: dict[str, None] = {}
        self._deadlines: list[tuple[Instant, str, int]] = []  # entries of attempts that are over are stale

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        self.FOLDS.apply(self, fact)

    def decide(self, now: Instant, room: int) -> list[Draft]:
        """Return the verdicts that are ready."""
        self._look(now)
        drafts: list[Draft] = []
        for job_id in self._ready:
            if len(drafts) >= room:
                break
            drafts.append(_verdict(job_id, self._jobs[job_id]))
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return the next deadline."""
        if self._ready:
            return NEVER
        while self._deadlines and self._is_stale(*self._deadlines[0]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        for job_id, one in self._jobs.items():
            yield Draft("preflight", job_id, STATE_NAME, one.as_body(PreflightState), trace=one.trace)

    def _look(self, now: Instant) -> None:
        """Mark attempts whose deadline is over as ready."""
        while self._deadlines and self._deadlines[0][0] <= now:
            moment, job_id, attempt = heapq.heappop(self._deadlines)
            if not self._is_stale(moment, job_id, attempt):
                self._ready[job_id] = None

    def _is_stale(self, moment: Instant, job_id: str, attempt: int) -> bool:  # noqa: ARG002 - as the heap has it
        one = self._jobs.get(job_id)
        return one is None or one.attempt != attempt

    @FOLDS.on("job", "placed", JobPlaced)
    def _placed(self, fact: Fact, placed: JobPlaced) -> None:
        if placed.preflight is not None:
            nodes = tuple(dict.fromkeys(slot.node for slot in placed.slots))
            self._jobs[fact.subject_id] = _Checked(placed.attempt, placed.preflight, nodes, fact.id, trace=fact.trace)

    @FOLDS.on("job", "pods-started", PodsStarted)
    def _started(self, fact: Fact, started: PodsStarted) -> None:
        one = self._jobs.get(fact.subject_id)
        if one is not None and started.attempt == one.attempt:
            one.started_at = one.reported_at = fact.time
            one.cause = fact.id
            self._await(fact.subject_id, one)

    def _await(self, job_id: str, one: _Checked) -> None:
        heapq.heappush(self._deadlines, (one.deadline, job_id, one.attempt))

    @FOLDS.on("job", "checks-reported", ChecksReported)
    def _reported(self, fact: Fact, found: ChecksReported) -> None:
        one = self._jobs.get(fact.subject_id)
        if one is None or found.attempt != one.attempt:
            return
        if found.is_last and one.is_last:
            return  # reported twice: by two leaders
        one.results += found.results
        one.cause, one.reported_at, one.is_last = fact.id, fact.time, found.is_last
        if one.is_last or any(result.outcome is CheckOutcome.FAIL for result in found.results):
            self._ready[fact.subject_id] = None

    @FOLDS.on("job", OVER, Payload)
    def _over(self, fact: Fact, _: Payload) -> None:
        self._jobs.pop(fact.subject_id, None)
        self._ready.pop(fact.subject_id, None)

    @FOLDS.on("preflight", STATE_NAME, PreflightState)
    def _state(self, fact: Fact, state: PreflightState) -> None:
        self._jobs[fact.subject_id] = one = _Checked.restored(state, trace=fact.trace)
        if one.started_at:
            self._await(fact.subject_id, one)
        if one.is_last or any(result.outcome is CheckOutcome.FAIL for result in one.results):
            self._ready[fact.subject_id] = None


def _verdict(job_id: str, one: _Checked) -> Draft:
    """Return the verdict of an attempt that is ready: it failed, or its reports are complete or late."""
    failed = [result for result in one.results if result.outcome is CheckOutcome.FAIL]
    unable = [result for result in one.results if result.outcome is CheckOutcome.CANNOT_RUN]
    took_s = max(0.0, seconds_between(one.started_at or one.reported_at, one.reported_at))
    if not failed:
        unable += one.unreported()
    against = failed or (unable if not one.plan.cannot_run_passes else [])
    payload: PreflightFailed | PreflightPassed
    if against:
        payload = PreflightFailed(
            attempt=one.attempt,
            suite=one.plan.suite,
            nodes=blamed(one.plan, against, one.nodes),
            reason=describe_result(against[0], more=len(against) - 1),
            failed=tuple(against[:FAILED_MAX]),
            took_s=took_s,
        )
    else:
        warned = tuple(describe_result(result) for result in unable[:WARNINGS_MAX])
        payload = PreflightPassed(attempt=one.attempt, suite=one.plan.suite, warned=warned, took_s=took_s)
    name = "preflight-failed" if against else "preflight-passed"
    return Draft("job", job_id, name, payload, causes=(one.cause,), trace=one.trace)
