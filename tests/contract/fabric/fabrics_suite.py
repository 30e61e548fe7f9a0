"""What every backend of the port `Fabrics` keeps: real calls and virtual ones. Inherit it and give a bench.

Moments are seconds from START. The bench's fabric has the machine MACHINE with nothing on it, FREE devices of MODEL in
its pool, and switches that take SWITCH_S, always.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from muster.composer.core.fabrics import (
    AttachCall,
    AttachDone,
    CallWentWrong,
    DetachCall,
    DetachDone,
    Fabrics,
    Observation,
    Surveyed,
)
from muster.core import NS_PER_S, Instant
from muster.schemas.devices import GPU
from muster.schemas.facts.device import CallFailure

START_S = 1_700_000_000
FABRIC, MACHINE, MODEL = "east", "machine-1", "NVIDIA-A100-PCIE-40GB"
FREE = 3
SWITCH_S = 10.0
CALL_S = 30.0


def moment(seconds: float) -> Instant:
    return Instant(round((START_S + seconds) * NS_PER_S))


def attach(
    order: str = "a1", *, attempt: int = 1, at_s: float = 0, call_s: float = CALL_S, model: str = MODEL
) -> AttachCall:
    return AttachCall(
        order=order, attempt=attempt, fabric=FABRIC, machine=MACHINE, model=model, start_by=moment(at_s + 5),
        deadline_at=moment(at_s + 5 + call_s),
    )  # fmt: skip


def detach(device_id: str, order: str = "a1", *, attempt: int = 2, at_s: float = 0) -> DetachCall:
    return DetachCall(
        order=order, attempt=attempt, fabric=FABRIC, machine=MACHINE, device_id=device_id, start_by=moment(at_s + 5),
        deadline_at=moment(at_s + 5 + CALL_S),
    )  # fmt: skip


class FabricsBench(Protocol):
    """A backend under test whose service leads, and the world that it works on."""

    fabrics: Fabrics

    def settle(self, at_s: float) -> Sequence[Observation]:
        """Let time pass until then, as a shell does; what is then told."""
        ...

    def standing(self) -> Sequence[str]:
        """Ids of the devices that truly are on MACHINE now."""
        ...

    def new_term(self) -> None:
        """The service loses its lease and takes it again."""
        ...

    def end(self) -> None: ...


def only(seen: Sequence[Observation]) -> Observation:
    [one] = seen
    return one


class FabricsContract(ABC):
    """Inherit it, and give a bench."""

    @abstractmethod
    def new_bench(self) -> FabricsBench: ...

    def test_at_first_there_is_nothing_to_tell(self) -> None:
        bench = self.new_bench()
        assert list(bench.settle(1)) == []
        assert bench.fabrics.next_change() is None
        bench.end()

    def test_a_call_is_under_way_until_its_outcome_is_acknowledged(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach())
        assert bench.fabrics.is_under_way("a1", 1)
        assert list(bench.settle(SWITCH_S - 1)) == []
        for at_s in (SWITCH_S + 1, SWITCH_S + 2):
            done = only(bench.settle(at_s))
            assert isinstance(done, AttachDone)
            assert (done.order, done.attempt) == ("a1", 1)
            assert bench.fabrics.is_under_way("a1", 1)
            assert bench.fabrics.next_change() == Instant(0)
        bench.fabrics.acknowledge("a1", 1)
        assert not bench.fabrics.is_under_way("a1", 1)
        assert list(bench.settle(SWITCH_S + 3)) == []
        assert bench.fabrics.next_change() is None
        bench.end()

    def test_an_attachment_names_the_device_that_is_there(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach())
        done = only(bench.settle(SWITCH_S + 1))
        assert isinstance(done, AttachDone)
        assert [device.device_id for device in done.candidates] == list(bench.standing())
        assert {(device.type, device.model) for device in done.candidates} == {(GPU, MODEL)}
        assert done.took_s == SWITCH_S
        bench.end()

    def test_the_same_call_twice_is_one(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach())
        bench.fabrics.carry_out(attach())
        bench.settle(1)
        bench.fabrics.carry_out(attach())
        assert len(bench.settle(3 * SWITCH_S)) == 1
        assert len(bench.standing()) == 1
        bench.end()

    def test_calls_run_side_by_side(self) -> None:
        bench = self.new_bench()
        for order in ("a1", "a2", "a3"):
            bench.fabrics.carry_out(attach(order))
        assert len(bench.settle(SWITCH_S + 1)) == 3
        assert len(bench.standing()) == 3
        bench.end()

    def test_a_device_is_taken_away_and_taking_it_away_again_finds_it_gone(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach())
        bench.settle(20)
        bench.fabrics.acknowledge("a1", 1)
        [device_id] = bench.standing()
        for attempt, was_gone, at_s in ((2, False, 20), (3, True, 40)):
            bench.fabrics.carry_out(detach(device_id, attempt=attempt, at_s=at_s))
            done = only(bench.settle(at_s + 15))
            assert isinstance(done, DetachDone)
            assert done.was_gone is was_gone
            assert list(bench.standing()) == []
            bench.fabrics.acknowledge("a1", attempt)
        bench.end()

    def test_what_the_fabric_refuses_is_told_as_refused(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach(model="NVIDIA-T4"))
        wrong = only(bench.settle(1))
        assert isinstance(wrong, CallWentWrong)
        assert wrong.failure is CallFailure.REFUSED
        assert "NVIDIA-T4" in wrong.error
        bench.end()

    def test_a_call_without_an_outcome_by_its_deadline_is_unknown(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach(call_s=1))
        assert list(bench.settle(5.5)) == []
        wrong = only(bench.settle(6.5))
        assert isinstance(wrong, CallWentWrong)
        assert wrong.failure is CallFailure.TIMEOUT
        bench.end()

    def test_a_new_term_knows_nothing_of_earlier_calls_and_the_fabric_goes_on(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach())
        bench.settle(1)
        bench.new_term()
        assert not bench.fabrics.is_under_way("a1", 1)
        assert list(bench.settle(3 * SWITCH_S)) == []
        assert len(bench.standing()) == 1
        bench.end()

    def test_a_look_shows_what_is_free_and_what_stands_where(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(attach())
        bench.settle(20)
        bench.fabrics.acknowledge("a1", 1)
        bench.fabrics.ask_survey(FABRIC, moment(20))
        look = only(bench.settle(21))
        assert isinstance(look, Surveyed)
        assert look.fabric == FABRIC
        assert look.began_at >= moment(20)
        assert look.inventory.free[GPU, MODEL] == FREE - 1
        assert [device.device_id for device in look.inventory.machines[MACHINE]] == list(bench.standing())
        assert bench.fabrics.next_change() is None
        bench.end()

    def test_a_look_is_not_taken_before_it_is_wanted(self) -> None:
        bench = self.new_bench()
        bench.fabrics.ask_survey(FABRIC, moment(60))
        assert list(bench.settle(59)) == []
        look = only(bench.settle(61))
        assert isinstance(look, Surveyed)
        assert look.began_at >= moment(60)
        bench.end()

    def test_the_newest_wish_for_a_look_counts(self) -> None:
        bench = self.new_bench()
        bench.fabrics.ask_survey(FABRIC, moment(60))
        bench.fabrics.ask_survey(FABRIC, moment(10))
        look = only(bench.settle(11))
        assert isinstance(look, Surveyed)
        assert look.began_at >= moment(10)
        bench.end()

    def test_a_look_that_was_taken_answers_who_asks_for_it_again(self) -> None:
        bench = self.new_bench()
        bench.fabrics.ask_survey(FABRIC, moment(10))
        first = only(bench.settle(11))
        bench.fabrics.ask_survey(FABRIC, moment(10))
        assert only(bench.settle(12)) == first
        bench.end()

    def test_an_unknown_fabric_is_unavailable_and_its_look_is_nobodys(self) -> None:
        bench = self.new_bench()
        bench.fabrics.carry_out(dataclasses.replace(attach(), fabric="west"))
        bench.fabrics.ask_survey("west", moment(0))
        wrong = only(bench.settle(1))
        assert isinstance(wrong, CallWentWrong)
        assert wrong.failure is CallFailure.UNAVAILABLE
        bench.end()
