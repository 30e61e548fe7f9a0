"""A composable fabric as its manager sees it: a pool, machines, devices that move between them, and what goes wrong.

Pure: time is an argument, chance is a function of the seed. Invariant: a device is in exactly one place - free in the
pool, reserved for an attachment that runs, or on one machine (also while it is being detached).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from muster.core import Instant, after
from muster.core.seeded import lognormal, uniform
from muster.core.settings import FabricBehaviour
from muster.fabric.driver import FabricUnavailableError, Inventory, MachineDevice
from muster.fabric.simulator.operation import (
    Fault,
    Operation,
    OperationKind,
    OperationState,
    PoolDevice,
)
from muster.fabric.simulator.places import Places, kind_of
from muster.schemas.devices import GPU

OPERATIONS_KEPT = 1_000
"""Operations that are over and still known; the oldest are forgotten."""

_FAULTS = (Fault.REFUSE, Fault.DROP, Fault.HALF, Fault.NONSENSE, Fault.TWICE)


class _Call(NamedTuple):
    """One accepted call."""

    number: int
    fault: Fault
    key: str
    traceparent: str

    @property
    def purpose(self) -> str | int:
        """Return the key of its random draws."""
        return self.key or self.number


class UnknownOperationError(LookupError):
    """The operation does not exist, or ended so long ago that it was dropped."""


class FabricModel:
    """One fabric. `now` never goes backwards: an earlier one counts as the latest.

    devices: those in the pool at the start. attached: those on machines at the start, by machine. A call's fault and
    time are drawn from the seed and its `key`, or its number where the key is "": a retry needs a key of its own.
    Raises ValueError for a machine or device that is named wrongly or twice.
    """

    def __init__(
        self,
        *,
        name: str,
        behaviour: FabricBehaviour,
        devices: Iterable[PoolDevice],
        machines: Iterable[str],
        attached: Mapping[str, Sequence[PoolDevice]] | None = None,
    ) -> None:
        self.name = name
        self.behaviour = behaviour
        self._now = Instant(0)
        self._next_id = 1
        self._places = Places(name, machines)
        self._busy: dict[str, int] = {}
        self._running: dict[int, Operation] = {}
        self._over: dict[int, Operation] = {}
        self._last: dict[str, Operation] = {}
        self._due: list[tuple[Instant, int]] = []
        for device in devices:
            self.enter(device)
        for machine, standing in (attached or {}).items():
            for device in standing:
                self.enter(device, machine)

    @property
    def now(self) -> Instant:
        """Return the latest time that was passed in."""
        return self._now

    @property
    def machines(self) -> tuple[str, ...]:
        """Return every known machine."""
        return self._places.machines

    @property
    def running(self) -> int:
        """Operations under way."""
        return len(self._running)

    def enter(self, device: PoolDevice, machine: str = "") -> None:
        """Add a device as if built in by hand, on a machine or in the pool, without checks of its kind.

        Raises ValueError: it exists already, or the machine does not exist.
        """
        self._places.enter(device, machine)

    def begin_attach(
        self,
        machine: str,
        *,
        model: str,
        now: Instant,
        type: str = GPU,  # noqa: A002 - the field's word
        device_id: str = "",
        key: str = "",
        traceparent: str = "",
    ) -> Operation:
        """Reserve a free device, or the one that is named, and start to move it.

        Raises FabricRefusedError (no such machine or model, none free: nothing was changed) and FabricUnavailableError
        (limit reached, or a fault: nothing was changed). A named one cannot be attached twice.
        """
        self.advance(now)
        self._places.on_machine(machine)
        if device_id:
            self._check_rests(device_id)
            self._places.check_free(device_id)
        call = self._admit(key, traceparent)
        device = self._places.take_named(device_id) if device_id else self._places.take((type, model))
        first = self._start(call, OperationKind.ATTACH, machine, device)
        return self._with_twin(first) if call.fault is Fault.TWICE and not device_id else first

    def begin_detach(
        self, machine: str, *, device_id: str, now: Instant, key: str = "", traceparent: str = ""
    ) -> Operation:
        """Start to take a device away; one that is not on the machine was gone, and that operation is over at once.

        Raises FabricRefusedError (no such machine) and FabricUnavailableError (the device is being moved, limit
        reached, or a fault: nothing was changed).
        """
        self.advance(now)
        here = self._places.on_machine(machine)
        self._check_rests(device_id)
        call = self._admit(key, traceparent)
        device = here.get(device_id)
        if device is None:
            return self._was_gone(call, machine)
        return self._start(call, OperationKind.DETACH, machine, device)

    def advance(self, now: Instant) -> tuple[Operation, ...]:
        """Finish what is due by `now`, in the order in which it is due; returns that."""
        self._now = max(self._now, now)
        finished = []
        while self._due and self._due[0][0] <= self._now:
            finished.append(self._finish(self._running.pop(heappop(self._due)[1])))
        return tuple(finished)

    def next_change(self) -> Instant | None:
        """When something is due next."""
        return self._due[0][0] if self._due else None

    def inventory(self) -> Inventory:
        """Return the free devices and those on machines, with all machines, without those being attached."""
        return self._places.inventory()

    def on_machine(self, machine: str) -> tuple[MachineDevice, ...]:
        """Devices of one machine. Raises FabricRefusedError if there is no such machine."""
        return tuple(self._places.on_machine(machine).values())

    def free_devices(self) -> tuple[MachineDevice, ...]:
        """Return the devices in the pool, in the order in which they would be taken."""
        return self._places.free()

    def device(self, device_id: str) -> MachineDevice | None:
        """Return one device, wherever it is."""
        return self._places.devices.get(device_id)

    def operation(self, id: int) -> Operation:  # noqa: A002 - the field of an operation
        """Return one operation in its present state. Raises UnknownOperationError."""
        found = self._running.get(id) or self._over.get(id)
        if found is None:
            raise UnknownOperationError(f"operation {id} is not known: {OPERATIONS_KEPT} that are over are kept")
        return found

    def operations(self) -> tuple[Operation, ...]:
        """Return the running operations and the newest ended ones, newest first."""
        return tuple(sorted((*self._running.values(), *self._over.values()), key=lambda one: one.id, reverse=True))

    @property
    def next_id(self) -> int:
        """Number of the next operation."""
        return self._next_id

    def places(self) -> dict[str, str]:
        """Machine of every device by its id, in the order in which they came there; "" for the pool and on the way."""
        return self._places.all()

    def running_on(self, machine: str) -> tuple[Operation, ...]:
        """Operations under way to or from a machine."""
        return tuple(one for one in self._running.values() if one.machine == machine)

    def last_of(self, device_id: str) -> Operation | None:
        """Return the newest ended operation of a device, as far as it is known."""
        return self._last.get(device_id)

    def moving(self) -> Mapping[str, int]:
        """Devices that are being moved, with the number of the operation that does it."""
        return dict(self._busy)

    def _check_rests(self, device_id: str) -> None:
        if device_id in self._busy:
            raise FabricUnavailableError(f"device {device_id}: operation {self._busy[device_id]} moves it")

    def _admit(self, key: str, traceparent: str) -> _Call:
        """Let a call in, or not: raises FabricUnavailableError."""
        if len(self._running) >= self.behaviour.limit:
            raise FabricUnavailableError(f"{len(self._running)} operations run, no more at a time: try again later")
        number = self._next_id
        self._next_id += 1
        fault = self._draw_fault(key or number)
        if fault is Fault.REFUSE:
            raise FabricUnavailableError("the manager is not ready: try again later")
        return _Call(number, fault, key, traceparent)

    def _draw_fault(self, purpose: str | int) -> Fault:
        behaviour = self.behaviour
        draw = uniform(behaviour.seed, self.name, "fault", purpose)
        shares = (
            behaviour.refuse_share, behaviour.drop_share, behaviour.half_share,
            behaviour.nonsense_share, behaviour.twice_share,
        )  # fmt: skip
        for fault, share in zip(_FAULTS, shares, strict=True):
            if draw < share:
                return fault
            draw -= share
        return Fault.NONE

    def _start(self, call: _Call, kind: OperationKind, machine: str, device: MachineDevice) -> Operation:
        behaviour, drawn_for = self.behaviour, (self.behaviour.seed, self.name)
        switch_s = lognormal(behaviour.switch_median_s, behaviour.switch_sigma, *drawn_for, "switch", call.purpose)
        operation = Operation(
            id=call.number,
            kind=kind,
            machine=machine,
            device_id=device.device_id,
            begun=self._now,
            due=after(self._now, switch_s),
            fault=call.fault,
            takes_effect=call.fault is not Fault.HALF or uniform(*drawn_for, "half", call.purpose) < 0.5,
            key=call.key,
            traceparent=call.traceparent,
        )
        self._run(operation)
        return operation

    def _run(self, operation: Operation) -> None:
        self._running[operation.id] = operation
        self._busy[operation.device_id] = operation.id
        heappush(self._due, (operation.due, operation.id))

    def _with_twin(self, first: Operation) -> Operation:
        """Run the request a second time at the same time if a device is left; return the first with its twin."""
        kind = kind_of(self._places.devices[first.device_id])
        if not self._places.has_free(kind):
            return first
        second = replace(first, id=self._next_id, device_id=self._places.take(kind).device_id, twin_of=first.id)
        self._next_id += 1
        self._run(second)
        self._running[first.id] = replace(first, twin=second.id)
        return self._running[first.id]

    def _was_gone(self, call: _Call, machine: str) -> Operation:
        operation = Operation(
            id=call.number,
            kind=OperationKind.DETACH,
            machine=machine,
            device_id="",
            begun=self._now,
            due=self._now,
            state=OperationState.DONE,
            fault=Fault.NONE if call.fault is Fault.HALF else call.fault,
            was_gone=True,
            key=call.key,
            traceparent=call.traceparent,
        )
        self._keep(operation)
        return operation

    def _finish(self, operation: Operation) -> Operation:
        device = self._places.devices[operation.device_id]
        del self._busy[device.device_id]
        attaches = operation.kind is OperationKind.ATTACH
        if attaches == operation.takes_effect:  # attached, or a detachment that came to nothing
            self._places.put_on(operation.machine, device)
        else:
            self._places.take_off(operation.machine, device)
            self._places.put_back(device)
        state = OperationState.FAILED if operation.fault is Fault.HALF else OperationState.DONE
        over = replace(operation, state=state)
        self._keep(over)
        return over

    def _keep(self, over: Operation) -> None:
        self._over[over.id] = over
        if over.device_id:
            self._last[over.device_id] = over
        if len(self._over) > OPERATIONS_KEPT:
            for oldest in list(islice(self._over, len(self._over) - OPERATIONS_KEPT)):
                del self._over[oldest]

    def restore(
        self, *, now: Instant, next_id: int, places: Mapping[str, str], operations: Sequence[Operation]
    ) -> None:
        """Be as it was: `places` gives the machine of each device, "" the pool; one it does not name stays where it is.

        What names devices and machines that are no more is left out. See muster.fabric.simulator.saved.
        """
        self._now, self._next_id = now, next_id
        self._running, self._over, self._last, self._busy, self._due = {}, {}, {}, {}, []
        for operation in operations:
            if operation.is_over:
                self._keep(operation)
            elif operation.device_id in self._places.devices and operation.machine in self._places.machines:
                self._run(operation)
        self._places.restore(places, moving=self._busy)
