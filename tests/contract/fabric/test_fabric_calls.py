"""Real calls keep what the port `Fabrics` promises. The fabric is a model, time is virtual."""

import asyncio
from collections.abc import Sequence
from typing import cast

from nats.aio.client import Client

from contract.fabric.fabrics_suite import FABRIC, FREE, MACHINE, MODEL, SWITCH_S, FabricsBench, FabricsContract, moment
from contract.fabric.model_driver import ModelDriver
from kit.virtual_time import VirtualLoop
from muster.bus.service import LeaderHandle
from muster.composer.calls import FabricCalls, Line
from muster.composer.core.fabrics import Observation
from muster.core.fact import Core
from muster.core.instant import seconds_between
from muster.core.settings import FabricBehaviour
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import PoolDevice

NOBODY = cast("Client", None)
NO_CORE = cast("Core", None)


class CallsBench:
    """FabricCalls in a loop of its own; `settle` does what the shell does."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.model = FabricModel(
            name=FABRIC,
            behaviour=FabricBehaviour(switch_median_s=SWITCH_S, switch_sigma=0.0),
            devices=[PoolDevice(f"GPU-{index}", MODEL) for index in range(FREE)],
            machines=[MACHINE],
        )
        line = Line(open=lambda: ModelDriver(self.model, moment(0)), limit=4, survey_s=5)
        self.calls = FabricCalls({FABRIC: line})
        self.fabrics = self.calls
        self.woken = asyncio.Event()
        self.loop.run_until_complete(self.calls.open(NO_CORE, NOBODY, LeaderHandle(self.woken.set, lambda: True)))

    def settle(self, at_s: float) -> Sequence[Observation]:
        return self.loop.run_until_complete(self._turns(at_s))

    async def _turns(self, at_s: float) -> Sequence[Observation]:
        while True:
            now = moment(self.loop.time())
            await self.calls.after_fold((), last_seq=0, now=now)
            change = self.calls.next_change()
            until_s = at_s if change is None or change == 0 else min(at_s, seconds_between(moment(0), change))
            try:
                async with asyncio.timeout_at(until_s):
                    await self.woken.wait()
            except TimeoutError:
                if until_s >= at_s:
                    return self.calls.observe(moment(at_s))
            self.woken.clear()

    def standing(self) -> Sequence[str]:
        self.model.advance(moment(self.loop.time()))
        return [device.device_id for device in self.model.on_machine(MACHINE)]

    def new_term(self) -> None:
        self.loop.run_until_complete(self.calls.close())
        self.loop.run_until_complete(self.calls.open(NO_CORE, NOBODY, LeaderHandle(self.woken.set, lambda: True)))

    def end(self) -> None:
        self.loop.run_until_complete(self.calls.close())
        self.loop.close()


class TestFabricCalls(FabricsContract):
    def new_bench(self) -> FabricsBench:
        return CallsBench()
