"""Simulate checks and actions on nodes: every answer is a function of the seed and of its purpose."""

from collections.abc import Collection, Iterator, Sequence

from muster.checks import catalogue
from muster.core.seeded import lognormal, uniform
from muster.core.settings import SimulatedWorkSettings
from muster.schemas import labels
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    CheckResult,
    NodeActionEnded,
    NodeActionRequested,
)
from muster.schemas.job import JobSpec

AS_LABELED = "as the job's label asks"
SIGMA = 0.2  # deviation of the logarithm of all times here
FAIL, FAIL_ONCE, CANNOT_RUN, HANG = "fail", "fail-once", "cannot-run", "hang"


def checks_s(behaviour: SimulatedWorkSettings, checks: Sequence[CheckOrder], *, seed: int, purpose: str) -> float:
    """Return the seconds that all checks take together, within their limits."""
    return min(_drawn_s(behaviour.check_s, seed, purpose, "checks"), sum(one.limit_s for one in checks))


def action_s(behaviour: SimulatedWorkSettings, *, seed: int, purpose: str) -> float:
    """Return the seconds that an action takes."""
    return _drawn_s(behaviour.action_s, seed, purpose, "action")


def never_reports(spec: JobSpec) -> bool:
    """Return whether the job asks for checks that hang."""
    return spec.labels.get(labels.PREFLIGHT) == HANG


def results_of(
    behaviour: SimulatedWorkSettings,
    checks: Sequence[CheckOrder],
    nodes: Sequence[str],
    *,
    seed: int,
    purpose: str,
    repaired: Collection[str] = (),
    wished: str = "",
) -> Iterator[CheckResult]:
    """Yield the result of each check on each node. `repaired` nodes are good again.

    `wished` is the outcome that the job's label asks for on the first node; it is no evidence against the node.
    """
    for node in nodes:
        troubled, outcome = _trouble(behaviour, checks, node, seed=seed, purpose=purpose, is_repaired=node in repaired)
        if wished and node == nodes[0]:
            found = CheckOutcome.CANNOT_RUN if wished == CANNOT_RUN else CheckOutcome.FAIL
            yield CheckResult(node=node, check=catalogue.COMMAND, outcome=found, detail=AS_LABELED)
        for one in checks:
            is_troubled = one.check == troubled
            yield CheckResult(
                node=node,
                check=one.check,
                outcome=outcome if is_troubled else CheckOutcome.PASS,
                detail=_WORDS[outcome] if is_troubled else "",
            )


def requested_of(spec: JobSpec, attempt: int) -> str:
    """Return the outcome that the job's label asks for; "" for none."""
    wished = spec.labels.get(labels.PREFLIGHT, "")
    return wished if wished in (FAIL, CANNOT_RUN) or (wished == FAIL_ONCE and attempt == 1) else ""


def action_ended(
    behaviour: SimulatedWorkSettings, asked: NodeActionRequested, *, seed: int, purpose: str, took_s: float
) -> NodeActionEnded:
    """Return the end of an action."""
    if took_s > asked.limit_s:
        words = f"not done within {asked.limit_s:g} s"
        return NodeActionEnded(
            request_id=asked.request_id, outcome=ActionOutcome.FAILED, detail=words, took_s=asked.limit_s
        )
    if uniform(seed, purpose, "fails") < behaviour.action_fail_share:
        words = f"simulated failure of {asked.action.value}"
        return NodeActionEnded(request_id=asked.request_id, outcome=ActionOutcome.FAILED, detail=words, took_s=took_s)
    done = ActionOutcome.DONE
    return NodeActionEnded(request_id=asked.request_id, outcome=done, version=asked.version, took_s=took_s)


_WORDS = {
    CheckOutcome.FAIL: "simulated failure",
    CheckOutcome.CANNOT_RUN: "simulated: the tool does not answer",
    CheckOutcome.PASS: "",
}


def _trouble(
    behaviour: SimulatedWorkSettings,
    checks: Sequence[CheckOrder],
    node: str,
    *,
    seed: int,
    purpose: str,
    is_repaired: bool,
) -> tuple[str, CheckOutcome]:
    """Return the check that fails on the node, and how; "" if all pass."""
    bad = "" if is_repaired else behaviour.bad_nodes.get(node, "")
    if bad and any(one.check == bad for one in checks):
        return bad, CheckOutcome.FAIL
    drawn = uniform(seed, purpose, node, "trouble")
    chosen = checks[int(uniform(seed, purpose, node, "which") * len(checks))].check
    if drawn < behaviour.check_fail_share:
        return chosen, CheckOutcome.FAIL
    if drawn < behaviour.check_fail_share + behaviour.check_cannot_run_share:
        return chosen, CheckOutcome.CANNOT_RUN
    return "", CheckOutcome.PASS


def _drawn_s(median_s: float, seed: int, *purpose: str) -> float:
    return lognormal(median_s, SIGMA, seed, *purpose) if median_s else 0.0
