"""What makes the composer's calls: when it begins them, how many, and what becomes of those it must let go of."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from nats.aio.client import Client
from prometheus_client import REGISTRY

from kit.virtual_time import virtually
from muster.bus.service import LeaderHandle
from muster.composer.calls import SURVEY_GAP_S, FabricCalls, Line
from muster.composer.core.fabrics import AttachCall, AttachDone, CallWentWrong, Observation, Surveyed, SurveyWentWrong
from muster.core import NS_PER_S, Instant
from muster.core.fact import Core
from muster.fabric.driver import AttachOrder, DetachOrder, FabricError, FabricUnavailableError, Inventory, MachineDevice
from muster.schemas.facts.device import CallFailure

LIMIT = 2
TAKES_S = 10.0
SURVEY_S = 4.0
DEVICE = MachineDevice("device-1", "GPU-1", "A100")


def at(seconds: float) -> Instant:
    return Instant(round((1_700_000_000 + seconds) * NS_PER_S))


@dataclass
class SlowDriver:
    """Attaches after TAKES_S. fails: what it raises instead."""

    parallel_max: int = 64
    takes_s: float = TAKES_S
    fails: Exception | None = None
    device: MachineDevice = DEVICE
    orders: list[AttachOrder] = field(default_factory=list)
    surveys: list[float] = field(default_factory=list)
    running: int = 0
    most: int = 0
    closed: int = 0

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        self.orders.append(order)
        await self._work()
        return (self.device,)

    async def detach(self, order: DetachOrder) -> bool:
        raise AssertionError(f"nobody detaches here: {order}")

    async def survey(self) -> Inventory:
        self.surveys.append(asyncio.get_running_loop().time())
        await self._work()
        return Inventory() if self.device is DEVICE else Inventory(machines={"machine-1": (self.device,)})

    async def close(self) -> None:
        self.closed += 1

    async def _work(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.running -= 1
        if self.fails is not None:
            raise self.fails


@dataclass
class Desk:
    """The shell's part. leads: what the leader says."""

    driver: SlowDriver
    leads: bool = True
    wakes: int = 0

    def __post_init__(self) -> None:
        self.woken = asyncio.Event()
        self.calls = FabricCalls({"east": Line(open=lambda: self.driver, limit=LIMIT, survey_s=SURVEY_S)})

    def _wake(self) -> None:
        self.wakes += 1
        self.woken.set()

    async def open(self) -> None:
        await self.calls.open(cast("Core", None), cast("Client", None), LeaderHandle(self._wake, lambda: self.leads))

    async def turn(self) -> Sequence[Observation]:
        """What the shell does when something was folded or is due."""
        now = at(asyncio.get_running_loop().time())
        await self.calls.after_fold((), last_seq=0, now=now)
        return self.calls.observe(now)

    async def after(self, seconds: float) -> Sequence[Observation]:
        """Two turns: the one that begins, and the one `seconds` later."""
        await self.turn()
        await asyncio.sleep(seconds)
        return await self.turn()


def with_desk(scenario: Callable[[Desk], Awaitable[None]], driver: SlowDriver | None = None) -> None:
    async def main() -> None:
        desk = Desk(driver or SlowDriver())
        await desk.open()
        await scenario(desk)
        await desk.calls.close()

    virtually(main())


def call(order: str = "a1", *, start_by_s: float = 1_000, deadline_s: float = 2_000) -> AttachCall:
    return AttachCall(
        order=order, attempt=1, fabric="east", machine="machine-1", model="A100", start_by=at(start_by_s),
        deadline_at=at(deadline_s), trace="00-ab-cd-01",
    )  # fmt: skip


def test_nothing_begins_before_the_fold_is_over_nor_without_the_lease() -> None:
    async def scenario(desk: Desk) -> None:
        desk.leads = False
        desk.calls.carry_out(call())
        await desk.after(1)
        assert desk.driver.orders == []
        desk.leads = True
        await desk.after(1)
        assert desk.driver.orders == [AttachOrder("machine-1", "A100", "gpu", "00-ab-cd-01")]

    with_desk(scenario)


def test_a_call_that_comes_too_late_is_not_made_and_nothing_was_changed() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call(start_by_s=3))
        assert desk.calls.next_change() == at(3)
        await asyncio.sleep(3)
        [wrong] = await desk.turn()
        assert isinstance(wrong, CallWentWrong)
        assert wrong.failure is CallFailure.UNAVAILABLE
        assert desk.driver.orders == []

    with_desk(scenario)


@pytest.mark.parametrize(("parallel_max", "most"), [(64, LIMIT), (1, 1)])
def test_as_many_run_as_the_setting_and_the_manager_allow(parallel_max: int, most: int) -> None:
    async def scenario(desk: Desk) -> None:
        for index in range(5):
            desk.calls.carry_out(call(f"a{index}"))
        while len(await desk.turn()) < 5:
            await desk.woken.wait()
            desk.woken.clear()
        assert desk.driver.most == most
        assert asyncio.get_running_loop().time() == TAKES_S * -(-5 // most)

    with_desk(scenario, SlowDriver(parallel_max=parallel_max))


def test_every_outcome_wakes_the_shell_which_then_begins_the_next() -> None:
    async def scenario(desk: Desk) -> None:
        for index in range(LIMIT + 1):
            desk.calls.carry_out(call(f"a{index}"))
        await desk.turn()
        await asyncio.sleep(TAKES_S + 1)
        assert desk.wakes == LIMIT
        assert desk.calls.next_change() == Instant(0)
        assert len(desk.driver.orders) == LIMIT
        await desk.turn()
        await asyncio.sleep(0)
        assert len(desk.driver.orders) == LIMIT + 1

    with_desk(scenario)


def test_what_was_taken_on_before_the_term_is_another_leaders() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.calls.close()
        desk.calls.carry_out(call())
        assert desk.calls.is_under_way("a1", 1)
        await desk.open()
        assert not desk.calls.is_under_way("a1", 1)
        assert await desk.after(2 * TAKES_S) == []
        assert desk.driver.orders == []

    with_desk(scenario)


def test_the_end_of_a_term_ends_its_calls_and_lets_go_of_the_connection() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call())
        await desk.after(1)
        assert desk.driver.running == 1
        await desk.calls.close()
        assert (desk.driver.running, desk.driver.closed) == (0, 1)
        assert asyncio.get_running_loop().time() == 1
        assert not desk.calls.is_under_way("a1", 1)
        assert desk.wakes == 0

    with_desk(scenario)


def test_an_outcome_that_the_log_already_has_is_not_told() -> None:
    async def scenario(desk: Desk) -> None:
        for order in ("a1", "a2", "a3"):
            desk.calls.carry_out(call(order))
        await desk.after(1)
        desk.calls.acknowledge("a1", 1)
        desk.calls.acknowledge("a3", 1)
        [done] = await desk.after(2 * TAKES_S)
        assert done == AttachDone("a2", 1, (DEVICE,), took_s=TAKES_S)
        assert len(desk.driver.orders) == 2

    with_desk(scenario)


@pytest.mark.parametrize("kind", FabricError.__subclasses__())
def test_what_the_driver_knows_of_the_effect_is_told_as_it_is(kind: type[FabricError]) -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call())
        [wrong] = await desk.after(TAKES_S + 1)
        assert wrong == CallWentWrong("a1", 1, kind.failure, "in its words")

    with_desk(scenario, SlowDriver(fails=kind("in its words")))


def test_a_defect_of_a_driver_ends_the_service() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call())
        await desk.turn()
        await asyncio.sleep(TAKES_S + 1)
        assert desk.wakes == 1
        assert desk.calls.next_change() == Instant(0)
        with pytest.raises(KeyError):
            await desk.turn()

    with_desk(scenario, SlowDriver(fails=KeyError("res_uuid")))


@pytest.mark.parametrize(
    "changed", [{"device_id": ""}, {"model": ""}, {"model": "x" * 254}, {"device_uuid": "x" * 254}]
)
def test_a_device_that_no_fact_can_hold_is_nonsense_of_its_fabric_and_no_defect(changed: dict[str, str]) -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call())
        desk.calls.ask_survey("east", at(0))
        wrong, look = await desk.after(TAKES_S + 1)
        assert isinstance(wrong, CallWentWrong)
        assert isinstance(look, SurveyWentWrong)
        assert (wrong.failure, look.failure) == (CallFailure.NONSENSE, CallFailure.NONSENSE)
        [name] = changed
        assert name in wrong.error
        assert name in look.error

    with_desk(scenario, SlowDriver(takes_s=1.0, device=replace(DEVICE, **changed)))


def test_a_call_is_over_at_its_deadline_whatever_the_driver_does() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call(deadline_s=4))
        [wrong] = await desk.after(4.5)
        assert isinstance(wrong, CallWentWrong)
        assert wrong.failure is CallFailure.TIMEOUT
        assert desk.driver.running == 0

    with_desk(scenario)


def test_calls_are_counted_by_what_came_of_them() -> None:
    def value(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"muster_fabric_{name}", {"fabric": "east", **labels}) or 0.0

    async def scenario(desk: Desk) -> None:
        done, late = (
            value("calls_total", call="attach", outcome="done"),
            value("calls_total", call="attach", outcome="unavailable"),
        )
        desk.calls.carry_out(call("a1"))
        desk.calls.carry_out(call("a2", start_by_s=-1))
        await desk.after(1)
        assert value("calls_running") == 1
        await desk.after(TAKES_S)
        assert value("calls_running") == 0
        assert value("calls_total", call="attach", outcome="done") == done + 1
        assert value("calls_total", call="attach", outcome="unavailable") == late + 1
        assert value("call_seconds_sum", call="attach") >= TAKES_S

    with_desk(scenario)


def test_one_look_at_a_time_and_a_later_wish_is_answered_by_the_next() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.ask_survey("east", at(0))
        await desk.turn()
        await asyncio.sleep(1)
        desk.calls.ask_survey("east", at(0.5))
        desk.calls.ask_survey("east", at(1))
        await desk.turn()
        assert desk.driver.surveys == [0]
        await asyncio.sleep(1.5)
        [look] = await desk.after(2.5)
        assert look == Surveyed("east", at(2.5), Inventory())
        assert desk.driver.surveys == [0, 2.5]
        assert desk.driver.most == 1

    with_desk(scenario, SlowDriver(takes_s=2))


def test_a_look_under_way_answers_who_asks_meanwhile_for_one_no_later() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.ask_survey("east", at(0))
        await desk.after(1)
        desk.calls.ask_survey("east", at(0))
        await desk.after(2)
        await desk.after(5)
        assert desk.driver.surveys == [0]

    with_desk(scenario, SlowDriver(takes_s=2))


def test_a_look_has_a_time_out_of_its_own() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.ask_survey("east", at(0))
        [wrong] = await desk.after(SURVEY_S + 0.5)
        assert isinstance(wrong, SurveyWentWrong)
        assert wrong.failure is CallFailure.TIMEOUT

    with_desk(scenario)


def test_a_look_that_failed_is_taken_again_but_not_at_once() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.ask_survey("east", at(0))
        await desk.after(0.2)
        desk.calls.ask_survey("east", at(0))
        assert desk.calls.next_change() == at(SURVEY_GAP_S)
        await desk.turn()
        await asyncio.sleep(SURVEY_GAP_S)
        await desk.after(0.5)
        assert desk.driver.surveys == [0, 0.2 + SURVEY_GAP_S]

    driver = SlowDriver(takes_s=0.1, fails=FabricUnavailableError("down"))
    with_desk(scenario, driver)


def test_a_look_is_told_once_by_the_clock_but_stands() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.ask_survey("east", at(0))
        await desk.turn()
        await asyncio.sleep(3)
        assert desk.calls.next_change() == Instant(0)
        first = await desk.turn()
        assert desk.calls.next_change() is None
        assert await desk.turn() == first

    with_desk(scenario, SlowDriver(takes_s=2))


def test_looks_do_not_take_the_places_of_calls() -> None:
    async def scenario(desk: Desk) -> None:
        for index in range(LIMIT):
            desk.calls.carry_out(call(f"a{index}"))
        desk.calls.ask_survey("east", at(0))
        await desk.after(1)
        assert desk.driver.running == LIMIT + 1

    with_desk(scenario)


def test_attempts_of_one_order_are_calls_of_their_own() -> None:
    async def scenario(desk: Desk) -> None:
        desk.calls.carry_out(call())
        desk.calls.carry_out(replace(call(), attempt=2))
        assert len(await desk.after(TAKES_S + 1)) == 2

    with_desk(scenario)
