"""The driver of Fsas' Cluster Manager, and what only it does."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.fabric.suite import UNKNOWN, LoginContract
from kit.fabrics import MODEL, ServedFabric, machine, served_fabric
from kit.waiting import until
from muster.fabric.driver import (
    DetachOrder,
    FabricNonsenseError,
    FabricRefusedError,
    FabricTimeoutError,
    FabricUnavailableError,
)
from muster.fabric.simulator.operation import OperationState

FELL_BACK = 4
"""Seed with which the first operation that breaks off half-way comes to nothing."""


class TestClusterManager(LoginContract):
    name = "cm"

    async def test_resizes_of_one_machine_in_both_directions_do_not_mix_up(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        async with self.driving(east) as driver:
            outcomes = await asyncio.gather(
                driver.attach(self.order(1)),
                driver.detach(DetachOrder(machine(1), device.device_id)),
                driver.attach(self.order(1)),
                driver.attach(self.order(1)),
            )
        assert outcomes[1] is True
        assert len(self.standing(east, 1)) == 3
        assert device not in self.standing(east, 1)
        assert len(east.manager.model.operations()) == 4

    async def test_of_two_calls_side_by_side_the_one_that_fails_does_not_end_with_the_others_device(
        self, east: ServedFabric
    ) -> None:
        async with self.driving(east, call_s=2.0) as driver:
            good = asyncio.create_task(driver.attach(self.order()))
            await until(lambda: east.manager.model.running)
            self.behave(east, half_share=1.0)
            bad = asyncio.create_task(driver.attach(self.order()))
            outcomes = await asyncio.gather(good, bad, return_exceptions=True)
        assert sum(isinstance(outcome, UNKNOWN) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, tuple) for outcome in outcomes) == 1

    async def test_an_attachment_beside_one_that_fell_back_asks_for_one_and_not_for_two(
        self, east: ServedFabric
    ) -> None:
        self.behave(east, half_share=1.0, seed=FELL_BACK, switch_median_s=0.5)
        async with self.driving(east, call_s=2.0) as driver:
            bad = asyncio.create_task(driver.attach(self.order()))
            await until(lambda: self.states(east) == [OperationState.FAILED])
            assert self.standing(east) == set()
            self.behave(east, half_share=0.0, switch_median_s=0.1)
            good = asyncio.create_task(driver.attach(self.order()))
            outcomes = await asyncio.gather(bad, good, return_exceptions=True)
        assert len(self.standing(east)) == 1
        assert sorted(self.states(east)) == [OperationState.DONE, OperationState.FAILED]
        assert sum(isinstance(outcome, UNKNOWN) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, tuple) for outcome in outcomes) == 1

    @pytest.mark.parametrize("seed", range(4))
    async def test_attachments_side_by_side_of_which_some_fail_never_ask_for_more_than_one_each(
        self, tmp_path: Path, seed: int
    ) -> None:
        calls = 6
        behaviour = {"pool": {MODEL: 16}, "switch_median_s": 0.05, "switch_sigma": 1.0}
        async with served_fabric(self.settings(tmp_path, **behaviour, half_share=0.5, seed=seed)) as east:
            async with self.driving(east, call_s=1.0) as driver:

                async def attach(after_s: float) -> None:
                    await asyncio.sleep(after_s)
                    await driver.attach(self.order())

                spread = (attach(index * 0.1) for index in range(calls))
                outcomes = await asyncio.gather(*spread, return_exceptions=True)
            begun = len(east.manager.model.operations())
        assert begun <= calls
        changed_nothing = sum(isinstance(outcome, FabricUnavailableError) for outcome in outcomes)
        assert begun == calls - changed_nothing

    async def test_a_count_that_the_manager_is_slow_to_raise_is_waited_for(self, tmp_path: Path) -> None:
        stub = OneMachine(count=0)
        async with self.stub(tmp_path, stub.say) as driver:
            calls = [asyncio.create_task(driver.attach(self.order(1))) for _ in range(2)]
            await until(lambda: stub.posted)
            looks = stub.looks
            await until(lambda: stub.looks >= looks + 4)
            assert stub.posted == [1]
            stub.count = 1
            await until(lambda: len(stub.posted) == 2)
            stub.count, stub.devices = 2, dict.fromkeys("ab", ("ADD_COMPLETE", ""))
            await asyncio.gather(*calls)
        assert stub.posted == [1, 2]

    async def test_a_count_that_is_never_raised_is_not_asked_to_be_more_and_nothing_was_changed(
        self, tmp_path: Path
    ) -> None:
        stub = OneMachine(count=0)
        async with self.stub(tmp_path, stub.say, call_s=1.0) as driver:
            first = asyncio.create_task(driver.attach(self.order(1)))
            await until(lambda: stub.posted)
            waits = [asyncio.create_task(driver.attach(self.order(1))) for _ in range(2)]
            outcomes = await asyncio.gather(first, *waits, return_exceptions=True)
        assert isinstance(outcomes[0], FabricTimeoutError)
        assert FabricUnavailableError in map(type, outcomes)
        assert set(stub.posted) == {1}

    async def test_a_resize_that_was_refused_is_waited_for_by_nobody(self, tmp_path: Path) -> None:
        stub = OneMachine(count=0)
        async with self.stub(tmp_path, stub.say) as driver:
            first = asyncio.create_task(driver.attach(self.order(1)))
            await until(lambda: stub.posted == [1])
            stub.count, stub.refuses = 1, {"code": "CountConflict", "message": "it is 4 now"}
            with pytest.raises(FabricUnavailableError):
                await driver.attach(self.order(1))
            stub.refuses = None
            third = asyncio.create_task(driver.attach(self.order(1)))
            await until(lambda: stub.posted == [1, 2])
            stub.count, stub.devices = 2, dict.fromkeys("ab", ("ADD_COMPLETE", ""))
            await asyncio.gather(first, third)

    def states(self, east: ServedFabric) -> list[OperationState]:
        return [operation.state for operation in east.manager.model.operations()]

    async def test_more_than_a_machine_may_have_is_refused_before_it_is_asked_for(self, tmp_path: Path) -> None:
        stub = OneMachine(count=3, most=3)
        async with self.stub(tmp_path, stub.say) as driver:
            with pytest.raises(FabricRefusedError, match="max_resspec_count"):
                await driver.attach(self.order(1))
        assert stub.posted == []

    async def test_a_count_that_moved_meanwhile_changed_nothing(self, tmp_path: Path) -> None:
        stub = OneMachine(count=3, refuses={"code": "CountConflict", "message": "it is 4 now"})
        async with self.stub(tmp_path, stub.say) as driver:
            with pytest.raises(FabricUnavailableError, match="CountConflict"):
                await driver.attach(self.order(1))

    async def test_resizes_side_by_side_count_on_from_what_the_manager_shows(self, tmp_path: Path) -> None:
        stub = OneMachine(count=0, raises=True)
        async with self.stub(tmp_path, stub.say) as driver:
            calls = [asyncio.create_task(driver.attach(self.order(1))) for _ in range(3)]
            await until(lambda: len(stub.posted) == 3)
            stub.devices = dict.fromkeys("abc", ("ADD_COMPLETE", ""))
            await asyncio.gather(*calls)
            later = asyncio.create_task(driver.attach(self.order(1)))
            await until(lambda: len(stub.posted) == 4)
            stub.devices["d"] = ("ADD_COMPLETE", "")
            await later
        assert stub.posted == [1, 2, 3, 4]

    async def test_an_attachment_that_failed_says_why(self, tmp_path: Path) -> None:
        stub = OneMachine(count=1, devices={"old": ("ADD_FAILED", "last week")})
        async with self.stub(tmp_path, stub.say) as driver:
            call = asyncio.create_task(driver.attach(self.order(1)))
            await until(lambda: stub.posted)
            stub.devices["new"] = ("ADD_FAILED", "link down")
            with pytest.raises(FabricNonsenseError, match="ADD_FAILED link down"):
                await call

    async def test_a_detachment_that_failed_says_why_and_an_older_failure_does_not_count(self, tmp_path: Path) -> None:
        stub = OneMachine(
            count=2, raises=True, devices={"a": ("ADD_COMPLETE", ""), "b": ("REMOVE_FAILED", "last week")}
        )
        async with self.stub(tmp_path, stub.say) as driver:
            fails = asyncio.create_task(driver.detach(DetachOrder(machine(1), "a")))
            works = asyncio.create_task(driver.detach(DetachOrder(machine(1), "b")))
            await until(lambda: len(stub.posted) == 2)
            looks = stub.looks
            await until(lambda: stub.looks >= looks + 4)  # each call looked at least once
            stub.devices["a"] = ("REMOVE_FAILED", "in use")
            with pytest.raises(FabricNonsenseError, match="REMOVE_FAILED in use"):
                await fails
            del stub.devices["b"]
            assert await works is True
        assert stub.posted == [1, 0]


@dataclass
class OneMachine:
    """A manager of one machine with one spec. It shows `count` and `devices` (status and reason) as a test sets them.

    refuses: what it answers a resize with. raises: it shows at once the count that it was asked for. posted:
    device_count of every resize that came. looks: how often it was looked at.
    """

    count: int
    most: int = 8
    devices: dict[str, tuple[str, str]] = field(default_factory=dict)
    refuses: dict[str, str] | None = None
    raises: bool = False
    posted: list[int] = field(default_factory=list)
    looks: int = 0

    async def say(self, request: Request) -> Response:
        if request.method == "POST":
            [(_, asked)] = (await request.json()).items()
            if self.refuses is not None:
                return JSONResponse({"status": 409, "detail": self.refuses}, 409)
            self.posted.append(asked["device_count"])
            self.count = self.posted[-1] if self.raises else self.count
            return JSONResponse({"status": "success"})
        self.looks += 1
        conditions = [{"column": "model", "operator": "eq", "value": MODEL}]
        spec = {
            "spec_uuid": "s1",
            "type": "gpu",
            "selector": {"expression": {"conditions": conditions}},
            "max_resspec_count": self.most,
            "device_count": self.count,
            "devices": [
                {"device_id": name, "status": status, "status_reason": reason}
                for name, (status, reason) in self.devices.items()
            ],
        }
        return JSONResponse({"data": {"cluster": {"machine": {"resspecs": [spec]}}}})
