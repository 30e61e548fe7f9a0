"""Fold the guard's advice and flow control, and compare both with the newest look."""

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.core.instant import NS_PER_S
from muster.guard.core.checks import CHECKS, Finding, degree_of
from muster.guard.core.config import GuardConfig
from muster.guard.core.limits import ADVICE_MAX, BETTER, WORSE
from muster.guard.core.look import FlowLook, Look
from muster.guard.core.printable import printable
from muster.schemas.facts.guard import (
    AdviceCleared,
    AdviceRaised,
    AdviceState,
    FlowApplied,
    FlowDrifted,
    FlowState,
)
from muster.schemas.registry import STATE_NAME

ADVICE = "advice"
FLOW = "flow"


class State:
    """State folded from the guard's own facts; `anomalies` counts facts that fit no state, by name."""

    FOLDS = Folds["State", None]()

    def __init__(self) -> None:
        self.advice: dict[str, AdviceState] = {}
        self.flows: dict[str, FlowState] = {}
        self.anomalies: Counter[str] = Counter()

    @FOLDS.on(ADVICE, "raised", AdviceRaised)
    def _raised(self, fact: Fact, raised: AdviceRaised) -> None:
        since = self.advice.get(fact.subject_id)
        raised_at = since.raised_at if since else fact.time
        self.advice[fact.subject_id] = AdviceState(raised=raised, raised_at=raised_at, fact=fact.id)

    @FOLDS.on(ADVICE, "cleared", AdviceCleared)
    def _cleared(self, fact: Fact, _: AdviceCleared) -> None:
        if self.advice.pop(fact.subject_id, None) is None:
            self.anomalies["cleared-unknown"] += 1

    @FOLDS.on(FLOW, "applied", FlowApplied)
    def _applied(self, fact: Fact, applied: FlowApplied) -> None:
        self.flows[fact.subject_id] = FlowState(applied=applied, at=fact.time)

    @FOLDS.on(FLOW, "drifted", FlowDrifted)
    def _drifted(self, fact: Fact, drifted: FlowDrifted) -> None:
        before = self.flows.get(fact.subject_id, FlowState())
        self.flows[fact.subject_id] = FlowState(applied=before.applied, drifted=drifted, at=fact.time)

    @FOLDS.on(ADVICE, STATE_NAME, AdviceState)
    def _advice_restored(self, fact: Fact, advice: AdviceState) -> None:
        self.advice[fact.subject_id] = advice

    @FOLDS.on(FLOW, STATE_NAME, FlowState)
    def _flow_restored(self, fact: Fact, flow: FlowState) -> None:
        self.flows[fact.subject_id] = flow

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts that restore this state."""
        for subject, advice in self.advice.items():
            yield Draft(ADVICE, subject, STATE_NAME, advice)
        for subject, flow in self.flows.items():
            yield Draft(FLOW, subject, STATE_NAME, flow)


def advise(standing: Mapping[str, AdviceState], look: Look, config: GuardConfig, now: Instant) -> Iterator[Draft]:
    """Yield advice to raise, repeat or clear after this look.

    If a check cannot tell, its advice is unchanged. At the bound the worst advice is raised first.
    """
    told: dict[str, Finding] = {}
    silent: set[str] = set()
    for code, judge in CHECKS.items():
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


def tell_flows(standing: Mapping[str, FlowState], look: Look) -> Iterator[Draft]:
    """Yield `applied` and `drifted` for the flows that changed. A flow that was never right has not drifted."""
    if look.levels is None or look.server is None:
        return
    for flow in look.flows:
        state = standing.get(flow.level, FlowState())
        if flow.is_right:
            yield from _applied(flow, state, look)
        elif state.applied is not None:
            yield from _drifted(flow, state)


def _applied(flow: FlowLook, state: FlowState, look: Look) -> Iterator[Draft]:
    assert look.server is not None
    applied = FlowApplied(
        seats=flow.wanted,
        shares=flow.shares,
        ballast_shares=flow.ballast,
        total_shares=flow.total,
        server_seats=look.server.high,
        resource=flow.resource,
        why=_why(flow, state),
    )
    before = state.applied
    same = before is not None and applied.model_copy(update={"why": before.why}) == before
    if state.drifted is not None or not same:
        yield Draft(FLOW, flow.level, "applied", applied)


def _why(flow: FlowLook, state: FlowState) -> str:
    who = "written by the guard" if flow.written else "found in place"
    if state.applied is None:
        return f"first seen, {who}"
    return f"other levels changed, {who}" if state.drifted is None else f"restored, {who}"


def _drifted(flow: FlowLook, state: FlowState) -> Iterator[Draft]:
    low, high = flow.found or (0, 0)
    seats = high if high != flow.wanted else low
    drifted = FlowDrifted(seats=flow.wanted, seats_found=seats, reason=printable(flow.reason))
    if state.drifted != drifted:
        yield Draft(FLOW, flow.level, "drifted", drifted)


_AT_ONCE = Instant(0)


class GuardCore:
    """The guard's core: the only writer of advice and flows of one cluster.

    Simulated clusters have it too, because a checkpoint needs the parts of all services; there it observes nothing.
    """

    def __init__(self, config: GuardConfig, *, guarded: bool = False) -> None:
        self.state = State()
        """Folded state, read-only."""
        self.config = config
        self.guarded = guarded
        """Whether a real cluster is observed."""
        self.look: Look | None = None
        """Newest look, None before the first of a term; not part of the state. Read-only."""
        self._is_new = False
        self._settled: Look | None = None
        """The look for which no draft is left: the log of a busy cluster makes the core decide often."""

    def observe(self, observation: Look, now: Instant) -> bool:  # noqa: ARG002 - the newest look counts, whenever it was
        """Take a look at the API servers."""
        self.look, self._is_new = observation, True
        return True

    def forget(self) -> None:
        """Forget the look when a term begins or ends."""
        self.look, self._is_new = None, False

    def apply(self, fact: Fact) -> None:
        """Fold a fact of the guard; facts that fit no state are counted in `state.anomalies`."""
        if fact in State.FOLDS:
            State.FOLDS.apply(self.state, fact)
            self._settled = None

    def decide(self, now: Instant) -> list[Draft]:
        """Return advice and flow facts; none before the first look."""
        look, self._is_new = self.look, False
        if look is None or look is self._settled:
            return []
        drafts = [*advise(self.state.advice, look, self.config, now), *tell_flows(self.state.flows, look)]
        if not drafts:
            self._settled = look
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return the time of the next decision: at once after a new look."""
        return _AT_ONCE if self._is_new else None

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        return self.state.snapshot()
