"""A driver straight over the simulated fabric's model, in the loop's time: no HTTP, no manager's ways."""

import asyncio

from muster.core import Instant, after, seconds_between
from muster.fabric.driver import AttachOrder, DetachOrder, Inventory, MachineDevice
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Operation


class ModelDriver:
    """See FabricDriver. start: the moment at which the loop's clock stood at 0."""

    parallel_max = 64

    def __init__(self, model: FabricModel, start: Instant) -> None:
        self.model = model
        self._start = start

    def _now(self) -> Instant:
        return after(self._start, asyncio.get_running_loop().time())

    async def _over(self, operation: Operation) -> None:
        await asyncio.sleep(seconds_between(self._now(), operation.due))
        self.model.advance(operation.due)

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        await self._over(self.model.begin_attach(order.machine, type=order.type, model=order.model, now=self._now()))
        return tuple(one for one in self.model.on_machine(order.machine) if one.model == order.model)

    async def detach(self, order: DetachOrder) -> bool:
        operation = self.model.begin_detach(order.machine, device_id=order.device_id, now=self._now())
        await self._over(operation)
        return not operation.was_gone

    async def survey(self) -> Inventory:
        self.model.advance(self._now())
        return self.model.inventory()

    async def close(self) -> None:
        return None
