"""All checks of a plan on this node, one after the other, within their limits."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from muster.checks.errors import CheckError
from muster.checks.probes import Place, probe
from muster.checks.programs import Run
from muster.checks.readers.reading import Reading, unable
from muster.schemas.facts.operations import CheckOrder, CheckResult, PreflightPlan

LAST_S = 1.0
"""Less than that is no time for a check."""


def run_plan(plan: PreflightPlan, place: Place, *, run: Run, now_s: Callable[[], float]) -> Iterator[CheckResult]:
    """Each result as it comes. now_s: a clock that only goes forward.

    What there is no time for any more could not run: so is everything told of by the plan's limit.
    """
    deadline_s = now_s() + plan.limit_s
    for order in plan.checks:
        began_s = now_s()
        left_s = deadline_s - began_s
        if left_s < LAST_S:
            reading = unable(f"no time was left of {plan.limit_s:g} s")
        else:
            reading = _probed(order, place, limit_s=min(order.limit_s, left_s), run=run)
        yield _result(order, place, reading, took_s=now_s() - began_s)


def _probed(order: CheckOrder, place: Place, *, limit_s: float, run: Run) -> Reading:
    try:
        return probe(order, place, limit_s=limit_s, run=run)
    except CheckError as error:
        return unable(str(error))


def _result(order: CheckOrder, place: Place, reading: Reading, *, took_s: float) -> CheckResult:
    short = replace(reading, detail=reading.detail[:1000], device=reading.device[:200], code=reading.code[:200])
    return CheckResult(
        node=place.node,
        check=order.check,
        outcome=short.outcome,
        value=short.measured.value,
        least=short.measured.least,
        unit=short.measured.unit,
        device=short.device,
        code=short.code,
        detail=short.detail,
        took_s=max(0.0, took_s),
    )
