"""What the guard believes follows from its own facts."""

from kit.log import a_fact
from muster.core import Draft
from muster.guard.core import GuardCore
from muster.guard.core.config import GuardConfig
from muster.schemas.base import Payload
from muster.schemas.facts.guard import AdviceCleared, AdviceRaised, FlowApplied, FlowDrifted

RAISED = AdviceRaised(code="memory-skew", about="127.0.0.1:6443", detail="2.4 times")
APPLIED = FlowApplied(seats=2, shares=1, ballast_shares=54, total_shares=300, server_seats=600, resource="secrets")


def new_core() -> GuardCore:
    return GuardCore(GuardConfig())


def told(core: GuardCore, kind: str, subject: str, name: str, payload: Payload, *, at: int = 1) -> None:
    core.apply(a_fact("guard", kind, subject, name, payload, seq=at))


def restored(drafts: list[Draft]) -> GuardCore:
    core = new_core()
    for draft in drafts:
        told(core, draft.kind, draft.subject_id, draft.name, draft.payload, at=9)
    return core


def test_advice_stands_from_raised_to_cleared() -> None:
    core = new_core()
    told(core, "advice", "memory-skew", "raised", RAISED)
    assert core.state.advice["memory-skew"].raised == RAISED
    told(core, "advice", "memory-skew", "cleared", AdviceCleared(code="memory-skew"))
    assert core.state.advice == {}


def test_advice_said_again_stands_since_it_was_first_raised() -> None:
    core = new_core()
    told(core, "advice", "memory-skew", "raised", RAISED, at=3)
    told(core, "advice", "memory-skew", "raised", RAISED.model_copy(update={"detail": "4 times"}), at=8)
    stands = core.state.advice["memory-skew"]
    assert (stands.raised_at, stands.raised.detail) == (3, "4 times")


def test_a_drift_keeps_what_was_applied_and_applying_ends_the_drift() -> None:
    core = new_core()
    told(core, "flow", "muster-list-secrets", "applied", APPLIED, at=1)
    told(core, "flow", "muster-list-secrets", "drifted", FlowDrifted(seats=2, seats_found=3), at=2)
    flow = core.state.flows["muster-list-secrets"]
    assert flow.applied == APPLIED
    assert flow.drifted == FlowDrifted(seats=2, seats_found=3)
    told(core, "flow", "muster-list-secrets", "applied", APPLIED, at=3)
    assert core.state.flows["muster-list-secrets"].drifted is None


def test_a_snapshot_folds_to_the_same_state() -> None:
    core = new_core()
    told(core, "advice", "memory-skew", "raised", RAISED)
    told(core, "flow", "muster-list-secrets", "applied", APPLIED, at=2)
    told(core, "flow", "muster-list-secrets", "drifted", FlowDrifted(seats=2, seats_found=3), at=3)
    other = restored(list(core.snapshot()))
    assert (other.state.advice, other.state.flows) == (core.state.advice, core.state.flows)


def test_what_was_never_raised_and_is_cleared_is_counted() -> None:
    core = new_core()
    told(core, "advice", "memory-skew", "cleared", AdviceCleared(code="memory-skew"))
    assert core.state.anomalies == {"cleared-unknown": 1}
