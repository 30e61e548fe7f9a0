"""What the log says of the guard: advice that stands, and how flow control was left."""

from collections import Counter
from collections.abc import Iterator

from muster.core import Draft, Fact
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
OWN = frozenset({ADVICE, FLOW})
"""Kinds that the guard alone writes."""


class State:
    """Folded from the guard's own facts alone. anomalies: facts that fit no state, by name."""

    def __init__(self) -> None:
        self.advice: dict[str, AdviceState] = {}
        self.flows: dict[str, FlowState] = {}
        self.anomalies: Counter[str] = Counter()

    def fold(self, fact: Fact) -> None:
        """One fact further."""
        match fact.payload:
            case AdviceRaised() as raised:
                since = self.advice.get(fact.subject_id)
                raised_at = since.raised_at if since else fact.time
                self.advice[fact.subject_id] = AdviceState(raised=raised, raised_at=raised_at, fact=fact.id)
            case AdviceCleared():
                if self.advice.pop(fact.subject_id, None) is None:
                    self.anomalies["cleared-unknown"] += 1
            case FlowApplied() as applied:
                self.flows[fact.subject_id] = FlowState(applied=applied, at=fact.time)
            case FlowDrifted() as drifted:
                before = self.flows.get(fact.subject_id, FlowState())
                self.flows[fact.subject_id] = FlowState(applied=before.applied, drifted=drifted, at=fact.time)
            case AdviceState() as advice:
                self.advice[fact.subject_id] = advice
            case FlowState() as flow:
                self.flows[fact.subject_id] = flow
            case _:
                self.anomalies[fact.name] += 1

    def snapshot(self) -> Iterator[Draft]:
        """State facts, which folded into a new state give this one."""
        for subject, advice in self.advice.items():
            yield Draft(ADVICE, subject, STATE_NAME, advice)
        for subject, flow in self.flows.items():
            yield Draft(FLOW, subject, STATE_NAME, flow)
