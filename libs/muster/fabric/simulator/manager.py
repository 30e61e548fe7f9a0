"""One simulated manager: a fabric's model, its clock, who may ask, and what is kept of it.

Whatever protocol a request came by, it begins operations here and then settles them: the answer waits until the
switches are done and kept, and is spoilt as the operations' fault says.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request

from muster.bus.settings import FabricSettings
from muster.core import Instant, after
from muster.fabric.driver import FabricUnavailableError
from muster.fabric.inventory import MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.clock import FabricClock
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Fault, Operation
from muster.fabric.simulator.problems import Nonsense, Refusal, Silence
from muster.fabric.simulator.saved import LayoutRecord
from muster.fabric.simulator.store import FabricStore
from muster.fabric.simulator.tokens import Tokens
from muster.schemas.devices import GPU

HOLD_S_MAX = 900.0
"""How long a caller who gets no answer may hold its connection."""
DEVICES_MAX = 64
"""Devices of one request."""
_logger = logging.getLogger(__name__)


@dataclass
class Manager:
    """See the module. tokens: None asks nobody who he is. store: None keeps nothing.

    outage: what becomes of every call, reads and tokens too, whatever it asks: none, refuse, drop or nonsense.
    delay_s: how long every call waits before anything is done for it.
    """

    model: FabricModel
    settings: FabricSettings
    machines: Mapping[str, Machine]
    clock: FabricClock
    tokens: Tokens | None = None
    store: FabricStore | None = None
    outage: Fault = Fault.NONE
    delay_s: float = 0.0
    layouts: dict[str, LayoutRecord] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def now(self) -> Instant:
        """The moment, with everything finished that is due by it."""
        now = self.clock.now()
        self.model.advance(now)
        return now

    def machine(self, name: str) -> Machine:
        """By its id. Raises Refusal (404)."""
        found = self.machines.get(name)
        if found is None:
            raise Refusal(404, "NoSuchMachine", f"machine {name!r} does not exist in fabric {self.model.name}")
        return found

    def devices_on(self, machine: str) -> tuple[MachineDevice, ...]:
        """What is on a machine now. Raises Refusal (404)."""
        self.machine(machine)
        self.now()
        return self.model.on_machine(machine)

    def attach(
        self, machine: str, *, model: str, kind: str = GPU, device_id: str = "", trace: str = ""
    ) -> tuple[Operation, ...]:
        """Begin to attach one, two if the request is delivered twice. Raises Refusal, FabricError."""
        self.machine(machine)
        operation = self.model.begin_attach(
            machine, type=kind, model=model, device_id=device_id, now=self.clock.now(), traceparent=trace
        )
        twin = (self.model.operation(operation.twin),) if operation.twin else ()
        return self._begun((operation, *twin))

    def attach_many(self, machine: str, *, model: str, kind: str, count: int, trace: str) -> tuple[Operation, ...]:
        """Begin to attach `count`. Raises Refusal and FabricError if none was begun; else those that were begun."""
        if count > DEVICES_MAX:
            raise Refusal(400, "TooMany", f"{count} devices in one request; at most {DEVICES_MAX}")
        begun: tuple[Operation, ...] = ()
        for _ in range(count):
            try:
                begun += self.attach(machine, model=model, kind=kind, trace=trace)
            except FabricUnavailableError:
                if not begun:
                    raise
                break
        return begun

    def detach(self, machine: str, device_id: str, *, trace: str = "") -> tuple[Operation, ...]:
        """Begin to take one away. Raises Refusal (404 for what is not there), FabricError."""
        if device_id not in self.model.moving() and all(
            device.device_id != device_id for device in self.devices_on(machine)
        ):
            raise Refusal(404, "NoSuchResource", f"resource {device_id!r} is not on machine {machine}")
        return self._begun(
            (self.model.begin_detach(machine, device_id=device_id, now=self.clock.now(), traceparent=trace),)
        )

    async def settle(self, request: Request, operations: Sequence[Operation]) -> None:
        """Return when these are over and kept. Raises what their fault makes of the answer."""
        last = max((one.due for one in operations), default=self.clock.now())
        await asyncio.gather(self.keep(), self.clock.until(last))
        self.now()
        await self.spoil(request, operations, halves=True)

    async def spoil(self, request: Request, operations: Sequence[Operation], *, halves: bool) -> None:
        """Make of the answer what the operations' fault wants; halves: also fail for one that is half done."""
        faults = {one.fault for one in operations}
        if Fault.DROP in faults:
            await hold(request)
        if Fault.NONSENSE in faults:
            raise Nonsense
        if Fault.HALF in faults and halves:
            numbers = ", ".join(str(one.id) for one in operations if one.fault is Fault.HALF)
            raise Refusal(500, "HalfDone", f"operation {numbers} failed; look at the machine")

    async def keep(self) -> None:
        """Return when the state as of now survives this process. Raises OSError."""
        if self.store is not None:
            await self.store.save()

    async def strike(self, request: Request) -> None:
        """Be slow, if that is wanted; if nothing works at present raise, or hold the caller, instead of an answer."""
        if self.delay_s:
            await self.clock.until(after(self.clock.now(), self.delay_s))
        match self.outage:
            case Fault.REFUSE:
                raise Refusal(503, "ServiceUnavailable", "the manager is out of service")
            case Fault.DROP:
                await hold(request)
            case Fault.NONSENSE:
                raise Nonsense
            case _:
                return

    def _begun(self, operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        for one in operations:
            device = self.model.device(one.device_id)
            _logger.info(
                "%s: operation %d: %s %s, machine %s, fault %s, trace %s",
                self.model.name, one.id, one.kind, device.device_uuid if device is not None else "nothing",
                one.machine, one.fault, one.traceparent or "-",
            )  # fmt: skip
        return operations


async def hold(request: Request) -> None:
    """Keep the caller waiting until it goes, at most HOLD_S_MAX. Always raises Silence."""
    try:
        async with asyncio.timeout(HOLD_S_MAX):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        _logger.warning("a caller waited %g s for an answer that it was not to get", HOLD_S_MAX)
    raise Silence
