"""`garbage-collection`: an API server may hold as much garbage as it has live memory, and does not give it back."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.limits import BETTER, GOGC_ADVISED, GOGC_DEFAULT, MEMORY_LIMIT_PART
from muster.guard.core.look import Look, Replica
from muster.guard.core.pages import MIB

CODE = "garbage-collection"
_PERCENT = 100.0
_CURE = (
    f"start it with the environment variables GOGC={GOGC_ADVISED} and GOMEMLIMIT={MEMORY_LIMIT_PART:.0%} of its "
    f"memory limit (there are no flags for them); what keeps a burst of LISTs small is `muster guard apply`"
)


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:
    """For each API server that is large enough, has Go's default or more, and no memory limit."""
    if not look.up:
        return None
    measured = effect(look)
    floor_mib = config.memory_floor_mib
    return [_finding(one, measured, floor_mib) for one in look.up if _is_concerned(one, floor_mib)]


def _is_concerned(replica: Replica, floor_mib: float) -> bool:
    page = replica.page
    return (
        page is not None
        and page.gogc is not None
        and (page.gogc >= GOGC_DEFAULT or page.gogc < 0)
        and page.memory_limit_bytes is None
        and replica.memory_mib >= floor_mib * BETTER
    )


def _finding(replica: Replica, measured: str, floor_mib: float) -> Finding:
    page = replica.page
    assert page is not None
    live_mib, goal_mib = live_mib_of(replica), page.heap_goal_bytes / MIB
    advised_mib = live_mib * (1 + GOGC_ADVISED / _PERCENT)
    return finding(
        code=CODE,
        about=replica.name,
        severity="info",
        degree=replica.memory_mib / floor_mib,
        detail=(
            f"{replica.name} has {replica.memory_mib:.0f} MiB with GOGC={page.gogc}: of {live_mib:.0f} MiB that live "
            f"the heap grows to {goal_mib:.0f} MiB before garbage is collected; with GOGC={GOGC_ADVISED} to "
            f"{advised_mib:.0f} MiB{measured}"
        ),
        cure=_CURE,
        figures=(
            ("memory_mib", replica.memory_mib),
            ("live_mib", live_mib),
            ("goal_mib", goal_mib),
            ("advised_goal_mib", advised_mib),
        ),
    )


def live_mib_of(replica: Replica) -> float:
    """Live heap at the last collection, from the next one's goal: goal = live * (1 + GOGC/100) (Go's GC guide)."""
    page = replica.page
    if page is None or page.gogc is None or page.gogc < 0:
        return 0.0
    return page.heap_goal_bytes / MIB / (1 + page.gogc / _PERCENT)


def effect(look: Look) -> str:
    """What API servers of one cluster that run with different GOGC show: memory over live heap of each."""
    by_gogc: dict[int, list[float]] = {}
    for replica in look.up:
        live_mib = live_mib_of(replica)
        if replica.page is not None and replica.page.gogc is not None and live_mib > 0:
            by_gogc.setdefault(replica.page.gogc, []).append(replica.memory_mib / live_mib)
    if len(by_gogc) < 2:
        return ""
    said = ", ".join(f"{sum(found) / len(found):.1f} with GOGC={gogc}" for gogc, found in sorted(by_gogc.items()))
    return f"; measured here, memory over live heap: {said}"
