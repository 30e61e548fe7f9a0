"""From looks to facts: said once, said again when much worse, taken back when over, and nothing without a look."""

from dataclasses import replace

import pytest

from kit.log import VirtualService
from muster.core import Draft, Fact, Instant
from muster.core.instant import NS_PER_S, after
from muster.guard.core import GuardCore
from muster.guard.core.config import GuardConfig
from muster.guard.core.limits import ADVICE_MAX
from muster.guard.core.look import ClientLists, Look
from muster.guard.core.seats import ServerSeats
from muster.schemas.facts.guard import AdviceCleared, AdviceRaised, FlowApplied, FlowDrifted
from unit.guard.pages_samples import NOW, flow, lister, look, replica


class VirtualGuard(VirtualService[GuardCore]):
    """The guard's core, and what it looks at."""

    def __init__(self) -> None:
        super().__init__("guard", GuardCore(GuardConfig()), start=NOW)

    def sees(self, seen: Look, *, after_s: float = 15.0) -> list[Fact]:
        """What is written of it; writing it twice would be a defect."""
        self.skip(after_s)
        self.core.observe(seen, self.now)
        facts = self.decide_once("guard")
        assert self.decide("guard") == []
        return facts


def names(facts: list[Fact]) -> list[str]:
    return [fact.name for fact in facts]


def listing(*rates: float) -> Look:
    return look(clients=tuple(lister(rate, f"client-{number}/1") for number, rate in enumerate(rates)))


def test_nothing_is_said_before_the_first_look() -> None:
    assert VirtualGuard().decide_once("guard") == []


def test_advice_is_raised_once_and_cleared_with_how_long_it_lasted() -> None:
    harness = VirtualGuard()
    (raised,) = harness.sees(listing(60))
    assert isinstance(raised.payload, AdviceRaised)
    assert harness.sees(listing(61)) == []
    (cleared,) = harness.sees(listing(5))
    assert cleared.payload == AdviceCleared(code="lists-too-much", lasted_s=30.0)
    assert cleared.subject_id == raised.subject_id
    assert cleared.causes == ("f1",)


def test_advice_does_not_come_and_go_at_the_threshold() -> None:
    harness = VirtualGuard()
    assert names(harness.sees(listing(31))) == ["raised"]
    assert harness.sees(listing(29)) == []
    assert names(harness.sees(listing(20))) == ["cleared"]
    assert harness.sees(listing(29)) == []


def test_what_became_much_worse_is_said_again() -> None:
    harness = VirtualGuard()
    harness.sees(listing(40))
    assert harness.sees(listing(79)) == []
    assert names(harness.sees(listing(81))) == ["raised"]
    assert harness.core.state.advice[next(iter(harness.core.state.advice))].raised_at == after(NOW, 15.0)


def test_what_cannot_be_seen_stands() -> None:
    harness = VirtualGuard()
    harness.sees(listing(60))
    assert harness.sees(look(clients_from="")) == []


def test_the_worst_are_raised_first_where_there_is_no_room_for_all() -> None:
    clients = tuple(ClientLists(f"client-{number}/1", "u", "pods", 31.0 + number) for number in range(ADVICE_MAX + 50))
    harness = VirtualGuard()
    drafts = harness.sees(look(clients=clients))
    assert len(drafts) == ADVICE_MAX
    least = min(one.payload.figures[1].value for one in drafts if isinstance(one.payload, AdviceRaised))
    assert least == 31.0 + 50


def right(**changes: object) -> Look:
    return look(
        flows=(replace(flow(is_right=True), **changes),),  # type: ignore[arg-type]
        server=ServerSeats(600, 600),
    )


def wrong(found: tuple[int, int] | None, reason: str = "API servers have not taken it up") -> Look:
    return look(flows=(flow(is_right=False, found=found, reason=reason),), server=ServerSeats(600, 600))


def only_flows(drafts: list[Draft]) -> list[Draft]:
    return [draft for draft in drafts if draft.kind == "flow"]


def test_a_flow_is_told_when_it_became_right_and_when_it_is_no_longer() -> None:
    harness = VirtualGuard()
    assert only_flows(harness.sees(wrong(None))) == []
    (applied,) = only_flows(harness.sees(right(written=True)))
    assert applied.payload == FlowApplied(
        seats=2, shares=1, ballast_shares=54, total_shares=300, server_seats=600, resource="secrets",
        why="first seen, written by the guard",
    )  # fmt: skip
    assert only_flows(harness.sees(right())) == []
    (drifted,) = only_flows(harness.sees(wrong((3, 3))))
    assert drifted.payload == FlowDrifted(seats=2, seats_found=3, reason="API servers have not taken it up")
    assert only_flows(harness.sees(wrong((3, 3)))) == []
    (mended,) = only_flows(harness.sees(right()))
    assert isinstance(mended.payload, FlowApplied)
    assert mended.payload.why == "restored, found in place"


def test_other_shares_for_the_same_seats_are_told_because_other_levels_changed() -> None:
    harness = VirtualGuard()
    harness.sees(right())
    (again,) = only_flows(harness.sees(right(shares=2, ballast=0, total=947, written=True)))
    assert isinstance(again.payload, FlowApplied)
    assert again.payload.why == "other levels changed, written by the guard"


def test_a_replica_that_differs_is_the_one_that_is_told() -> None:
    harness = VirtualGuard()
    harness.sees(right())
    (drifted,) = only_flows(harness.sees(wrong((2, 5))))
    assert isinstance(drifted.payload, FlowDrifted)
    assert drifted.payload.seats_found == 5


def test_flows_that_cannot_be_seen_have_not_drifted() -> None:
    harness = VirtualGuard()
    harness.sees(right())
    assert only_flows(harness.sees(look(levels=None, flows=(), server=None))) == []
    assert harness.now > Instant(NS_PER_S)
    assert replica().memory_mib == 300


def test_a_busy_log_does_not_have_the_same_look_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, judged = VirtualGuard(), list[Look]()
    harness.sees(listing(60))

    def judge(seen: Look, config: GuardConfig) -> None:
        judged.append(seen)

    monkeypatch.setattr("muster.guard.core.core.CHECKS", {"lists-too-much": judge})
    assert [harness.core.decide(harness.now) for _ in range(3)] == [[], [], []]
    assert judged == []
    harness.sees(listing(60))
    assert len(judged) == 1
