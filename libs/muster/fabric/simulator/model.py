"""A composable fabric as its manager sees it: a pool, machines, devices that move between them, and what goes wrong.

Pure: time is an argument, chance is a function of the seed. Invariant: a device is in exactly one place - free in the
pool, reserved for an attachment that runs, or on one machine (also while it is being detached).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from muster.core import Instant, after
from muster.core.seeded import lognormal, uniform
from muster.fabric.driver import FabricRefusedError, FabricUnavailableError
from muster.fabric.inventory import Inventory, MachineDevice
from muster.fabric.simulator.operation import (
    Behaviour,
    Fault,
    Operation,
    OperationKind,
    OperationState,
    PoolDevice,
)
from muster.schemas.devices import GPU

OPERATIONS_KEPT = 1_000
"""Operations that are over and still known; the oldest are forgotten."""

_FAULTS = (Fault.REFUSE, Fault.DROP, Fault.HALF, Fault.NONSENSE, Fault.TWICE)


class _Call(NamedTuple):
    """One call that was let in."""

    number: int
    fault: Fault
    key: str
    traceparent: str

    @property
    def purpose(self) -> str | int:
        """What its draws are for."""
        return self.key or self.number


class UnknownOperationError(LookupError):
    """There was no such operation, or it was over so long ago that it is forgotten."""


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
        settings: Behaviour,
        devices: Iterable[PoolDevice],
        machines: Iterable[str],
        attached: Mapping[str, Sequence[PoolDevice]] | None = None,
    ) -> None:
        self.name = name
        self.behaviour = settings
        self._now = Instant(0)
        self._next_id = 1
        self._machines: dict[str, dict[str, MachineDevice]] = {machine: {} for machine in machines}
        self._devices: dict[str, MachineDevice] = {}
        self._rank: dict[str, int] = {}
        self._free: dict[tuple[str, str], list[int]] = {}
        self._by_rank: list[str] = []
        self._busy: dict[str, int] = {}
        self._running: dict[int, Operation] = {}
        self._over: dict[int, Operation] = {}
        self._last: dict[str, Operation] = {}
        self._due: list[tuple[Instant, int]] = []
        for device in devices:
            self._put_in_pool(self._enter(device))
        for machine, standing in (attached or {}).items():
            for device in standing:
                self._place_at_start(machine, self._enter(device))

    @property
    def now(self) -> Instant:
        """The latest moment that it was told."""
        return self._now

    @property
    def machines(self) -> tuple[str, ...]:
        """Every machine that it knows."""
        return tuple(self._machines)

    @property
    def running(self) -> int:
        """Operations under way."""
        return len(self._running)

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
        self._check_machine(machine)
        if device_id:
            self._check_free(device_id)
        call = self._admit(key, traceparent)
        device = self._take_named(device_id) if device_id else self._take_free((type, model))
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
        self._check_machine(machine)
        if device_id in self._busy:
            raise FabricUnavailableError(f"device {device_id}: operation {self._busy[device_id]} moves it")
        call = self._admit(key, traceparent)
        device = self._machines[machine].get(device_id)
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
        """What is free and what is on machines, all machines named; what is being attached is in neither."""
        return Inventory(
            free={key: len(ranks) for key, ranks in self._free.items()},
            machines={machine: tuple(devices.values()) for machine, devices in self._machines.items()},
        )

    def on_machine(self, machine: str) -> tuple[MachineDevice, ...]:
        """Devices of one machine. Raises FabricRefusedError if there is no such machine."""
        self._check_machine(machine)
        return tuple(self._machines[machine].values())

    def free_devices(self) -> tuple[MachineDevice, ...]:
        """What lies in the pool, in the order in which it would be taken."""
        return tuple(self._devices[self._by_rank[rank]] for ranks in self._free.values() for rank in sorted(ranks))

    def device(self, device_id: str) -> MachineDevice | None:
        """One device, wherever it is."""
        return self._devices.get(device_id)

    def operation(self, id: int) -> Operation:  # noqa: A002 - the field of an operation
        """One operation as it stands. Raises UnknownOperationError."""
        found = self._running.get(id) or self._over.get(id)
        if found is None:
            raise UnknownOperationError(f"operation {id} is not known: {OPERATIONS_KEPT} that are over are kept")
        return found

    def operations(self) -> tuple[Operation, ...]:
        """Those that run and the newest that are over, newest first."""
        return tuple(sorted((*self._running.values(), *self._over.values()), key=lambda one: one.id, reverse=True))

    @property
    def next_id(self) -> int:
        """Number of the next operation."""
        return self._next_id

    def places(self) -> dict[str, str]:
        """Machine of every device by its id, in the order in which they came there; "" for the pool and on the way."""
        on_machines = {device_id: machine for machine, standing in self._machines.items() for device_id in standing}
        return {device_id: "" for device_id in self._devices if device_id not in on_machines} | on_machines

    def running_on(self, machine: str) -> tuple[Operation, ...]:
        """Operations under way to or from a machine."""
        return tuple(one for one in self._running.values() if one.machine == machine)

    def last_of(self, device_id: str) -> Operation | None:
        """The newest operation of a device that is over, as far as it is known."""
        return self._last.get(device_id)

    def moving(self) -> Mapping[str, int]:
        """Devices that are being moved, with the number of the operation that does it."""
        return dict(self._busy)

    def _enter(self, device: PoolDevice) -> MachineDevice:
        known = device.on_machine()
        if known.device_id in self._devices:
            raise ValueError(f"fabric {self.name}: device {device.device_uuid} is there twice")
        self._rank[known.device_id] = len(self._by_rank)
        self._by_rank.append(known.device_id)
        self._devices[known.device_id] = known
        self._free.setdefault((known.type, known.model), [])
        return known

    def _place_at_start(self, machine: str, device: MachineDevice) -> None:
        if machine not in self._machines:
            raise ValueError(f"fabric {self.name}: device {device.device_uuid} stands on {machine!r}, no such machine")
        self._machines[machine][device.device_id] = device

    def _put_in_pool(self, device: MachineDevice) -> None:
        heappush(self._free[device.type, device.model], self._rank[device.device_id])

    def _check_machine(self, machine: str) -> None:
        if machine not in self._machines:
            raise FabricRefusedError(f"machine {machine!r}: fabric {self.name} has no such machine")

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

    def _take_free(self, kind: tuple[str, str]) -> MachineDevice:
        ranks = self._free.get(kind)
        if ranks is None:
            raise FabricRefusedError(f"model {kind[1]!r}: fabric {self.name} has no {kind[0]} of that model")
        if not ranks:
            raise FabricRefusedError(f"model {kind[1]!r}: no {kind[0]} of it is free in the pool of fabric {self.name}")
        return self._devices[self._by_rank[heappop(ranks)]]

    def _check_free(self, device_id: str) -> None:
        device = self._devices.get(device_id)
        if device is None:
            raise FabricRefusedError(f"device {device_id!r}: fabric {self.name} has no such device")
        if device_id in self._busy:
            raise FabricUnavailableError(f"device {device_id}: operation {self._busy[device_id]} moves it")
        if self._rank[device_id] not in self._free[device.type, device.model]:
            raise FabricRefusedError(f"device {device_id}: it is on a machine; detach it there first")

    def _take_named(self, device_id: str) -> MachineDevice:
        device = self._devices[device_id]
        ranks = self._free[device.type, device.model]
        ranks.remove(self._rank[device_id])
        heapify(ranks)
        return device

    def _start(self, call: _Call, kind: OperationKind, machine: str, device: MachineDevice) -> Operation:
        behaviour, drawn_for = self.behaviour, (self.behaviour.seed, self.name)
        switch_s = lognormal(behaviour.switch_median_s, behaviour.switch_sigma, *drawn_for, "switch", call.purpose)
        operation = Operation(
            id=call.number,
            kind=kind,
            machine=machine,
            device=device,
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
        assert operation.device is not None
        self._running[operation.id] = operation
        self._busy[operation.device.device_id] = operation.id
        heappush(self._due, (operation.due, operation.id))

    def _with_twin(self, first: Operation) -> Operation:
        """The same request once more, at the same time; nothing if no device is left for it."""
        assert first.device is not None
        kind = first.device.type, first.device.model
        if not self._free[kind]:
            return first
        second = replace(first, id=self._next_id, device=self._take_free(kind), twin_of=first.id)
        self._next_id += 1
        self._run(second)
        self._running[first.id] = replace(first, twin=second.id)
        return self._running[first.id]

    def _was_gone(self, call: _Call, machine: str) -> Operation:
        operation = Operation(
            id=call.number,
            kind=OperationKind.DETACH,
            machine=machine,
            device=None,
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
        device = operation.device
        assert device is not None
        del self._busy[device.device_id]
        attaches = operation.kind is OperationKind.ATTACH
        if attaches == operation.takes_effect:  # attached, or a detachment that came to nothing
            self._machines[operation.machine].setdefault(device.device_id, device)
        else:
            self._machines[operation.machine].pop(device.device_id, None)
            self._put_in_pool(device)
        state = OperationState.FAILED if operation.fault is Fault.HALF else OperationState.DONE
        over = replace(operation, state=state)
        self._keep(over)
        return over

    def _keep(self, over: Operation) -> None:
        self._over[over.id] = over
        if over.device is not None:
            self._last[over.device.device_id] = over
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
        stood = {device_id: standing for standing in self._machines.values() for device_id in standing}
        for device_id, machine in places.items():
            if device_id not in self._devices or (machine and machine not in self._machines):
                continue
            if device_id in stood:
                del stood[device_id][device_id]
            if machine:
                self._machines[machine][device_id] = self._devices[device_id]
        self._running, self._over, self._last, self._busy, self._due = {}, {}, {}, {}, []
        for operation in operations:
            if operation.is_over:
                self._keep(operation)
            elif operation.device is not None and operation.machine in self._machines:
                self._run(operation)
        self._refill()

    def _refill(self) -> None:
        """Put into the pool what is neither on a machine nor on its way to one."""
        elsewhere = {device_id for standing in self._machines.values() for device_id in standing} | set(self._busy)
        self._free = {kind: [] for kind in self._free}
        for device_id, device in self._devices.items():
            if device_id not in elsewhere:
                self._put_in_pool(device)
