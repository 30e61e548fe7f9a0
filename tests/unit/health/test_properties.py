"""What holds whatever happens: nothing is done to what is not withheld, and every instance believes the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.health import VirtualHealth, device
from muster.core import Draft, Fact, after
from muster.health.core.state import Unit
from muster.schemas.facts.health import BrakeResetRequested, HealthPhase, VerifyRequested
from muster.schemas.facts.node import NodeLeft, NodeLost, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import CheckOutcome
from muster.schemas.telemetry import ExporterState

NODES = ("a", "b", "c", "d", "e")
XIDS = (13, 31, 48, 63, 64, 74, 79, 94, 95, 154, 999)
STEPS = st.one_of(
    st.tuples(st.just("xid"), st.sampled_from(NODES), st.integers(0, 3), st.sampled_from(XIDS)),
    st.tuples(st.just("pending"), st.sampled_from(NODES), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("exporter"), st.sampled_from(NODES), st.sampled_from(tuple(ExporterState)), st.just(0)),
    st.tuples(st.just("answers"), st.booleans(), st.just(0), st.just(0)),
    st.tuples(st.just("passes"), st.sampled_from(tuple(CheckOutcome)), st.just(0), st.just(0)),
    st.tuples(st.just("works"), st.booleans(), st.just(0), st.just(0)),
    st.tuples(st.just("later"), st.sampled_from((10, 70, 400, 5_000)), st.just(0), st.just(0)),
    st.tuples(st.just("lost"), st.sampled_from(NODES), st.just(0), st.just(0)),
    st.tuples(st.just("left"), st.sampled_from(NODES), st.just(0), st.just(0)),
    st.tuples(st.just("maintain"), st.sampled_from(NODES), st.booleans(), st.just(0)),
    st.tuples(st.just("verify"), st.sampled_from(NODES), st.booleans(), st.just(0)),
    st.tuples(st.just("reset"), st.booleans(), st.just(0), st.just(0)),
)


class Checked(VirtualHealth):
    """A harness that looks at every fact of health as it is said."""

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        if writer == "health":
            self._allow(draft)
        return super().append(writer, draft, **rest)

    def _allow(self, draft: Draft) -> None:
        if draft.name in ("action-requested", "checks-requested"):
            units = [self.unit("node", draft.subject_id), *self.core.verdicts.state.devices_of(draft.subject_id)]
            working = [unit for unit in units if unit is not None and unit.work_id == draft.payload.request_id]  # type: ignore[attr-defined]
            assert len(working) == 1, "one asks for work, after it moved"
            assert working[0].is_withheld, "nothing is done to what somebody may hold"
        if draft.name == "healthy":
            unit = self.unit(draft.kind, draft.subject_id)
            assert unit is not None
            assert self._may_come_back(unit)

    @staticmethod
    def _may_come_back(unit: Unit) -> bool:
        is_checked = unit.phase is HealthPhase.VERIFYING and unit.work_done and not unit.work_failed
        lasts = any(one.told.is_condition for one in unit.grave)
        return unit.trust or (is_checked and not lasts) or (not unit.needs_checks and not unit.grave)


def happen(harness: Checked, step: tuple[object, ...]) -> None:
    what, first, second, third = step
    match what:
        case "answers":
            harness.answers = bool(first)
        case "passes":
            harness.passes = CheckOutcome(str(first))
        case "works":
            harness.works = bool(first)
        case "later":
            harness.now = after(harness.now, float(str(first)))
        case "verify":
            request = VerifyRequested(principal="ann", trust=bool(second))
            harness.write("federation", "node", str(first), "verify-forwarded", request)
        case "reset":
            asked = BrakeResetRequested(principal="ann", skip=bool(first))
            harness.write("federation", "health", "brake", "brake-reset-forwarded", asked)
        case _ if first in harness.core.verdicts.state.nodes:
            _happen_to(harness, str(first), str(what), second, third)
        case _:
            pass


def _happen_to(harness: Checked, node: str, what: str, second: object, third: object) -> None:
    match what:
        case "xid":
            harness.page(node, device(node, int(str(second)), xid=third, xid_counts=((third, 1),)))
        case "pending":
            harness.page(node, device(node, int(str(second)), remap_pending=third))
        case "exporter":
            harness.page(node, exporter=ExporterState(str(second)))
        case "lost":
            harness.write("agent", "node", node, "lost", NodeLost())
        case "left":
            harness.write("agent", "node", node, "left", NodeLeft())
        case _:
            _maintain(harness, node, begins=bool(second))


def _maintain(harness: Checked, node: str, *, begins: bool) -> None:
    if begins:
        harness.write("upgrader", "node", node, "withhold-requested", WithholdRequested(request_id=f"up-{node}"))
        harness.write("scheduler", "node", node, "withheld", Withheld(request_id=f"up-{node}"))
        return
    withdrawn = WithholdWithdrawn(request_id=f"up-{node}", after_withheld=True)
    harness.write("upgrader", "node", node, "withhold-withdrawn", withdrawn)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_nothing_is_done_to_what_is_held_and_nothing_comes_back_without_evidence(
    steps: list[tuple[object, ...]],
) -> None:
    harness = Checked(gpus=4)
    harness.join(*NODES)
    for step in steps:
        happen(harness, step)
        harness.settle()
        harness.now = after(harness.now, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_who_starts_from_a_checkpoint_believes_the_same(steps: list[tuple[object, ...]]) -> None:
    harness = Checked(gpus=4)
    harness.join(*NODES)
    for step in steps:
        happen(harness, step)
        harness.settle()
        harness.now = after(harness.now, 1)
    other = harness.recovered()
    assert {draft.subject_id: draft.payload for draft in other.core.snapshot()} == {
        draft.subject_id: draft.payload for draft in harness.core.snapshot()
    }
    assert set(other.core.verdicts.state.ill) == set(harness.core.verdicts.state.ill)
    assert other.core.verdicts.state.incidents == harness.core.verdicts.state.incidents


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 3), st.sampled_from((13, 31, 43, 45))), max_size=30))
def test_programs_of_one_team_never_take_hardware_away(steps: list[tuple[str, int, int]]) -> None:
    harness = VirtualHealth(gpus=4)
    harness.join(*NODES)
    harness.run("A" * 26, "vision", *NODES, devices=range(4))
    for node, index, xid in steps:
        harness.page(node, device(node, index, xid=xid, xid_counts=((xid, 1),)))
        harness.settle()
        harness.now = after(harness.now, 200)
    assert not harness.facts("withhold-requested")
