"""Driver for the Fsas Cluster Manager: an asynchronous resize, requested once and then polled.

Routes and fields: CoHDI/composable-resource-operator v0.2.1, internal/cdi/fti/cm.

Resizes of one machine are posted one after the other under a lock, each from a count that the manager shows (see
`resizing`), and run concurrently; a resize with an unknown outcome is never posted again. A call takes the next device
that became complete (or failed) and that no other call of this driver took. Inventories come from the Fabric Manager at
the same address, because the Cluster Manager does not count the pool.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import Field, JsonValue

from muster.fabric import bounds
from muster.fabric.driver import (
    AttachOrder,
    DetachOrder,
    FabricNonsenseError,
    FabricRefusedError,
    FabricUnavailableError,
    Inventory,
    MachineDevice,
)
from muster.fabric.fm import Condition, FabricManager, health_of, memory_mib_of, value_of
from muster.fabric.http import Answer, ManagerHttp, parsed, poll, segment


@dataclass
class Resizes:
    """Running resizes of one spec of one machine, and the count from which the next resize may start.

    A resize sets the number of devices, not an increment. The manager raises its `device_count` at a time of its own
    choice, and lowers it again when an attachment fails. So the next resize starts from the count that the manager
    shows, and only after it has shown the count of the last resize, or when no resize runs any more: counting on from a
    number that was only requested would request a device twice when an earlier attachment failed. A race remains
    between that read and the resize; the next survey reports a surplus device as an orphan.
    """

    running: int = 0
    count: int = 0
    """Count that the last resize requested."""
    asked_at_s: float = 0.0
    """When the last resize was accepted, by the clock of the event loop."""
    is_shown: bool = True
    """Whether the manager has shown `count` since then."""
    taken: set[str] = field(default_factory=set)
    """Devices that calls have returned."""

    def asked(self, count: int, *, at_s: float) -> None:
        """Record that the manager accepted a resize to this count."""
        self.count, self.asked_at_s, self.is_shown = count, at_s, False

    def saw(self, count: int, *, since_s: float) -> None:
        """Record a count that a read returned; ignore a read that began before the last resize was accepted."""
        self.is_shown = self.is_shown or (count == self.count and since_s >= self.asked_at_s)

    @property
    def may_go_on(self) -> bool:
        """Return whether the next resize may start from the count that the manager shows."""
        return self.is_shown or not self.running


class ResizesOf:
    """Running resizes by machine and spec; finished ones are removed."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Resizes] = {}

    def begin(self, machine: str, spec: str) -> Resizes:
        """Record that one more resize runs, until `end`."""
        resizes = self._of.setdefault((machine, spec), Resizes())
        resizes.running += 1
        return resizes

    def end(self, machine: str, spec: str) -> None:
        """Record that one resize has ended."""
        resizes = self._of[machine, spec]
        resizes.running -= 1
        if not resizes.running:
            del self._of[machine, spec]

    def saw(self, machine: str, spec: str, count: int, *, since_s: float) -> None:
        """Record a count that a read of this machine and spec returned; see `Resizes.saw`."""
        if (resizes := self._of.get((machine, spec))) is not None:
            resizes.saw(count, since_s=since_s)

    def may_go_on(self, machine: str, spec: str) -> bool:
        """Return whether the next resize of this machine and spec may start; see `Resizes.may_go_on`."""
        resizes = self._of.get((machine, spec))
        return resizes is None or resizes.may_go_on


_ADDED, _ADD_FAILED, _REMOVE_FAILED = "ADD_COMPLETE", "ADD_FAILED", "REMOVE_FAILED"


class _Detail(Answer):
    res_uuid: str = ""
    res_op_status: str = ""


class _Device(Answer):
    device_id: str
    status: str
    status_reason: str = ""
    detail: _Detail = _Detail()

    @property
    def fabric_id(self) -> str:
        return self.detail.res_uuid or self.device_id


class _Expression(Answer):
    conditions: tuple[Condition, ...] = ()


class _Selector(Answer):
    expression: _Expression = _Expression()


class _ResourceSpec(Answer):
    spec_uuid: str
    type: str
    selector: _Selector = _Selector()
    max_resspec_count: int | None = None
    device_count: int = Field(ge=0)
    devices: tuple[_Device, ...] = Field(default=(), max_length=bounds.DEVICES_MAX)

    @property
    def model(self) -> str:
        return value_of(self.selector.expression.conditions, "model")

    def on_machine(self, device: _Device) -> MachineDevice:
        return MachineDevice(
            device_id=device.fabric_id,
            device_uuid=device.device_id,
            model=self.model,
            type=self.type,
            memory_mib=memory_mib_of(self.selector.expression.conditions),
            health=health_of(device.detail.res_op_status),
        )


class _Machine(Answer):
    resspecs: tuple[_ResourceSpec, ...] = Field(max_length=bounds.DEVICES_MAX)

    def spec_of(self, kind: str, model: str) -> _ResourceSpec | None:
        return next((spec for spec in self.resspecs if (spec.type, spec.model) == (kind, model)), None)

    def where(self, device_id: str) -> tuple[_ResourceSpec, _Device] | None:
        return next(
            (
                (spec, device)
                for spec in self.resspecs
                for device in spec.devices
                if device_id in (device.fabric_id, device.device_id)
            ),
            None,
        )


class _Cluster(Answer):
    machine: _Machine


class _ClusterData(Answer):
    cluster: _Cluster


class _ClusterAnswer(Answer):
    data: _ClusterData


_Found = tuple[_ResourceSpec, _Device | None]
FoundT = TypeVar("FoundT", bound=_Found)


@dataclass(frozen=True, slots=True)
class _Resize:
    """A resize that adds one device of a spec, or removes the device `device_id`."""

    machine: str
    spec: _ResourceSpec
    device_id: str = ""

    def count_after(self) -> int:
        """Return the device count to request. Raises FabricRefusedError if the machine may not have that many."""
        count, most = self.spec.device_count, self.spec.max_resspec_count
        if self.device_id:
            return max(0, count - 1)
        if most is not None and count + 1 > most:
            raise FabricRefusedError(f"machine {self.machine}: max_resspec_count of {self.spec.model} is {most}")
        return count + 1

    def body(self, count: int) -> JsonValue:
        if not self.device_id:
            return {"increase_resource_count": {"spec_uuid": self.spec.spec_uuid, "device_count": count}}
        gone: list[JsonValue] = [self.device_id]
        return {"remove_resources": {"spec_uuid": self.spec.spec_uuid, "device_count": count, "devices": gone}}


class ClusterManager:
    """Driver for a Cluster Manager. inventory: the Fabric Manager at the same address."""

    parallel_max = bounds.PARALLEL_MAX["cm"]

    def __init__(
        self,
        http: ManagerHttp,
        *,
        inventory: FabricManager,
        tenant: str,
        cluster: str,
        call_s: float,
        poll_s: float = bounds.POLL_S_MIN,
    ) -> None:
        self._http = http
        self._inventory = inventory
        self._call_s = call_s
        self._poll_s = poll_s
        self._base = (
            f"cluster_manager/cluster_autoscaler/v3/tenants/{segment(tenant, field='tenant')}"
            f"/clusters/{segment(cluster, field='cluster_id')}/machines"
        )
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._resizes = ResizesOf()

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Resize the machine to one device more, and poll until a new device is complete; see FabricDriver.attach."""
        until, what = self._until(), f"resize of machine {order.machine} for one {order.model} more"

        async def seen() -> _ResourceSpec | None:
            machine = await self._machine(order.machine, until=until, trace=order.traceparent)
            return machine.spec_of(order.type, order.model)

        async def counted() -> _Found | None:
            spec = await seen()
            return None if spec is None else (spec, None)

        async with self._turn(order.machine, until=until, what=what):
            found = await self._settled(counted, order.machine, until=until, what=what)
            if found is None:
                raise FabricRefusedError(f"{what}: the machine has no resource spec of {order.type} {order.model}")
            spec, _ = found
            known = {device.device_id for device in spec.devices if device.status in (_ADDED, _ADD_FAILED)}
            resizes = await self._resize(_Resize(order.machine, spec), until=until, trace=order.traceparent)

        async def look() -> tuple[MachineDevice, ...] | None:
            spec = await seen()
            return None if spec is None else _arrived(spec, known=known, resizes=resizes, what=what)

        try:
            return await poll(look, until=until, what=what, poll_s=self._poll_s)
        finally:
            self._resizes.end(order.machine, spec.spec_uuid)

    async def detach(self, order: DetachOrder) -> bool:
        """Resize the machine to run without the device, and poll until the device is gone; see FabricDriver.detach."""
        until, what = self._until(), f"resize of machine {order.machine} without {order.device_id}"

        async def seen() -> tuple[_ResourceSpec, _Device] | None:
            machine = await self._machine(order.machine, until=until, trace=order.traceparent)
            return machine.where(order.device_id)

        async with self._turn(order.machine, until=until, what=what):
            there = await self._settled(seen, order.machine, until=until, what=what)
            if there is None:
                return False
            spec, device = there
            await self._resize(_Resize(order.machine, spec, device.device_id), until=until, trace=order.traceparent)

        async def look() -> bool | None:
            now = await seen()
            if now is None:
                return True
            if now[1].status == _REMOVE_FAILED != device.status:
                raise FabricNonsenseError(f"{what}: {_REMOVE_FAILED} {now[1].status_reason}".rstrip())
            return None

        try:
            return await poll(look, until=until, what=what, poll_s=self._poll_s)
        finally:
            self._resizes.end(order.machine, spec.spec_uuid)

    async def survey(self) -> Inventory:
        """Return the inventory of the Fabric Manager; see FabricDriver.survey."""
        return await self._inventory.survey()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self._call_s

    @asynccontextmanager
    async def _turn(self, machine: str, *, until: float, what: str) -> AsyncIterator[None]:
        """Hold the machine's lock. Raises FabricUnavailableError if other calls hold it for too long."""
        lock = self._locks[machine]
        try:
            async with asyncio.timeout_at(until):
                await lock.acquire()
        except TimeoutError as error:
            raise FabricUnavailableError(f"{what}: not started: waiting for other resizes of the machine") from error
        try:
            yield
        finally:
            lock.release()

    async def _settled(
        self, look: Callable[[], Awaitable[FoundT | None]], machine: str, *, until: float, what: str
    ) -> FoundT | None:
        """Poll `look` under the machine's lock until the next resize may start from its count; return its result.

        Raises FabricUnavailableError if that takes too long: nothing was posted.
        """
        loop, poll_s = asyncio.get_running_loop(), self._poll_s
        while True:
            found = await look()
            if found is None or self._resizes.may_go_on(machine, found[0].spec_uuid):
                return found
            if loop.time() + poll_s >= until:
                raise FabricUnavailableError(
                    f"{what}: not started: another resize runs, and device_count is still {found[0].device_count}"
                )
            await asyncio.sleep(poll_s)
            poll_s = min(poll_s * bounds.POLL_GROWTH, bounds.POLL_S_MAX)

    async def _machine(self, machine: str, *, until: float, trace: str) -> _Machine:
        path = f"{self._base}/{segment(machine, field='machine')}"
        since_s = asyncio.get_running_loop().time()
        body = await self._http.read(path, until=until, trace=trace)
        found = parsed(_ClusterAnswer, body, what=f"GET machine {machine}").data.cluster.machine
        for spec in found.resspecs:
            self._resizes.saw(machine, spec.spec_uuid, spec.device_count, since_s=since_s)
        return found

    async def _resize(self, resize: _Resize, *, until: float, trace: str) -> Resizes:
        """Post the resize once, under the machine's lock, and return the record in which it runs until it is ended."""
        count, key = resize.count_after(), (resize.machine, resize.spec.spec_uuid)
        resizes = self._resizes.begin(*key)
        try:
            path = f"{self._base}/{segment(resize.machine, field='machine')}/actions/resize"
            said = await self._http.change("POST", path, until=until, body=resize.body(count), trace=trace)
            parsed(Answer, said, what=f"POST {path}")
        except BaseException:
            self._resizes.end(*key)
            raise
        resizes.asked(count, at_s=asyncio.get_running_loop().time())
        return resizes


def _arrived(spec: _ResourceSpec, *, known: set[str], resizes: Resizes, what: str) -> tuple[MachineDevice, ...] | None:
    """Return all complete devices once a new one is among them, else None. Raises FabricNonsenseError if it failed.

    A failed device may stay on the machine, so the error does not promise that nothing was changed.
    """
    for device in spec.devices:
        if device.device_id in known or device.device_id in resizes.taken:
            continue
        if device.status == _ADDED:
            resizes.taken.add(device.device_id)
            return tuple(spec.on_machine(each) for each in spec.devices if each.status == _ADDED)
        if device.status == _ADD_FAILED:
            resizes.taken.add(device.device_id)
            raise FabricNonsenseError(f"{what}: {_ADD_FAILED} {device.status_reason}".rstrip())
    return None
