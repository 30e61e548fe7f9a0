"""From findings to facts: what is said, said again because it got much worse, and taken back."""

from collections.abc import Iterator, Mapping

from muster.core import Draft, Instant
from muster.core.instant import NS_PER_S
from muster.guard.core.config import GuardConfig
from muster.guard.core.judges import JUDGES
from muster.guard.core.judges.finding import Finding, degree_of
from muster.guard.core.limits import ADVICE_MAX, BETTER, WORSE
from muster.guard.core.look import Look
from muster.guard.core.state import ADVICE
from muster.schemas.facts.guard import AdviceCleared, AdviceState


def advise(standing: Mapping[str, AdviceState], look: Look, config: GuardConfig, now: Instant) -> Iterator[Draft]:
    """What is to be said of this look and is not yet.

    What a judge cannot tell stays as it is. The worst is raised first where the bound does not allow all.
    """
    told: dict[str, Finding] = {}
    silent: set[str] = set()
    for code, judge in JUDGES.items():
        found = judge(look, config)
        if found is None:
            silent.add(code)
            continue
        told.update((finding.subject, finding) for finding in found)
    room = ADVICE_MAX - len(standing)
    for subject, state in standing.items():
        code = state.raised.code
        if code in silent:
            continue
        finding = told.get(subject)
        if finding is None or finding.degree < BETTER:
            room += 1
            yield Draft(ADVICE, subject, "cleared", _cleared(state, now), causes=_causes(state))
    fresh = [one for subject, one in told.items() if subject not in standing and one.degree >= 1.0]
    for finding in sorted(fresh, key=lambda one: (-one.degree, one.subject))[: max(0, room)]:
        yield Draft(ADVICE, finding.subject, "raised", finding.advice)
    for subject, state in standing.items():
        again = told.get(subject)
        if again is not None and again.degree >= WORSE * degree_of(state.raised):
            yield Draft(ADVICE, subject, "raised", again.advice, causes=_causes(state))


def _cleared(state: AdviceState, now: Instant) -> AdviceCleared:
    return AdviceCleared(code=state.raised.code, lasted_s=max(0.0, (now - state.raised_at) / NS_PER_S))


def _causes(state: AdviceState) -> tuple[str, ...]:
    return (state.fact,) if state.fact else ()
