"""Which nodes are to blame for checks that failed, and in which words."""

from collections.abc import Collection, Sequence

from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.operations import CheckOutcome, CheckResult, CheckScope, PreflightPlan

TOGETHER_MAX = 4
"""Nodes of a gang that are all left alone when together they failed, and nothing says which; of more, none is: a
hundred good nodes would be lost to one bad link, and idle-time checks find it."""
SLOW_SHARE = 0.9
"""Of the largest value: a node of a gang that measured less than that is the one to blame."""


def blamed(plan: PreflightPlan, failed: Sequence[CheckResult], nodes: Collection[str]) -> tuple[str, ...]:
    """The nodes that the job is to be kept away from, sorted; () if nothing says which.

    A check of a node by itself says it. One of the gang fails everywhere when one node is bad: then whoever was slower
    than the others is blamed, else all of a small gang.
    """
    together = {order.check for order in plan.checks if order.scope is CheckScope.GANG}
    alone = {result.node for result in failed if result.check not in together}
    if alone:
        return tuple(sorted(alone))
    suspects = {result.node for result in failed}
    if len(suspects) < len(nodes) or len(suspects) <= TOGETHER_MAX:
        return tuple(sorted(_slower(failed) or suspects))
    return tuple(sorted(_slower(failed)))


def words_of(result: CheckResult, *, more: int = 0) -> str:
    """One result in words. more: how many others there are."""
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
    """Those that measured distinctly less than the best of them."""
    values = [result.value for result in failed if result.value is not None]
    most = max(values, default=0.0)
    return {one.node for one in failed if one.value is not None and one.value < SLOW_SHARE * most}
