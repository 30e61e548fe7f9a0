"""NEC layouts: which procedures may begin, and what becomes of a layout. One at a time."""

import asyncio
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request

from muster.fabric.driver import FabricError, FabricUnavailableError
from muster.fabric.simulator.manager import DEVICES_MAX, Manager
from muster.fabric.simulator.operation import Operation, OperationState
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.saved import LayoutRecord

LAYOUTS_KEPT = 100
"""Layouts that are over and still known; the oldest are forgotten."""
IN_PROGRESS, COMPLETED, FAILED, SKIPPED = "IN_PROGRESS", "COMPLETED", "FAILED", "SKIPPED"


class Procedure(BaseModel):
    """One step. sourceDeviceID: the CPU; destinationDeviceID: the device; the field's older names are read too."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    operation_id: Annotated[int, Field(validation_alias="operationID")]
    operation: Literal["connect", "disconnect", "boot", "shutdown"]
    source: Annotated[str, Field(validation_alias=AliasChoices("sourceDeviceID", "targetCPUID"))] = ""
    destination: Annotated[str, Field(validation_alias=AliasChoices("destinationDeviceID", "targetDeviceID"))] = ""
    dependencies: tuple[int, ...] = ()

    def shown(self) -> dict[str, object]:
        """As it is told."""
        return {
            "operationID": self.operation_id,
            "operation": self.operation,
            "sourceDeviceID": self.source,
            "destinationDeviceID": self.destination,
            "dependencies": list(self.dependencies),
        }


class Layout(BaseModel):
    """Body of a layout-apply."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    procedures: Annotated[tuple[Procedure, ...], Field(max_length=DEVICES_MAX)]

    @model_validator(mode="after")
    def _can_be_carried_out(self) -> Self:
        """Every dependency names an earlier procedure, so there is an order."""
        known: set[int] = set()
        for one in self.procedures:
            if one.operation_id in known:
                raise ValueError(f"operationID {one.operation_id} is there twice")
            if unknown := set(one.dependencies) - known:
                raise ValueError(f"dependencies of {one.operation_id}: {min(unknown)} does not stand before it")
            known.add(one.operation_id)
        return self


class LayoutRun:
    """One layout under way. Procedures without a device to move (boot, shutdown) take no time."""

    def __init__(self, manager: Manager, layout: Layout, *, apply_id: str, trace: str) -> None:
        self._manager = manager
        self._left = {one.operation_id: one for one in layout.procedures}
        self._moving: dict[int, Operation] = {}
        self._results: dict[int, dict[str, object]] = {}
        self._trace = trace
        self.record = LayoutRecord(
            apply_id=apply_id,
            status=IN_PROGRESS,
            procedures=tuple(one.shown() for one in layout.procedures),
            started=manager.now(),
        )

    @property
    def moving(self) -> tuple[Operation, ...]:
        """What moves now."""
        return tuple(self._moving.values())

    def begin(self) -> None:
        """Begin what may. Raises FabricUnavailableError if the very first cannot be: then nothing was changed."""
        for one in tuple(self._left.values()):
            if any(self._results.get(before, {}).get("status") != COMPLETED for before in one.dependencies):
                continue
            try:
                self._begin(one)
            except FabricUnavailableError as error:
                if not self._moving and not self._results:
                    raise
                self._end(one, FAILED, str(error))
            except (FabricError, Refusal) as error:
                self._end(one, FAILED, str(error))

    async def finish(self) -> None:
        """Carry out the rest; what depends on a failure is skipped."""
        while self._moving:
            await self._manager.clock.until(max(one.due for one in self._moving.values()))
            self._manager.now()
            for operation_id, operation in tuple(self._moving.items()):
                over = self._manager.model.operation(operation.id)
                failed = over.state is OperationState.FAILED
                del self._moving[operation_id]
                self._end_moved(operation_id, FAILED if failed else COMPLETED, "broke off half-way" if failed else "")
            self.begin()
        for one in tuple(self._left.values()):
            self._end(one, SKIPPED, "")
        failed = any(result["status"] != COMPLETED for result in self._results.values())
        self.record = self.record.model_copy(
            update={
                "status": FAILED if failed else COMPLETED,
                "results": tuple(self._results.values()),
                "ended": self._manager.now(),
            }
        )
        self._manager.layouts[self.record.apply_id] = self.record
        await self._manager.keep()

    def _begin(self, one: Procedure) -> None:
        manager = self._manager
        if one.operation == "connect":
            [operation] = manager.attach(one.source, model="", device_id=one.destination, trace=self._trace)
        elif one.operation == "disconnect":
            [operation] = manager.detach(one.source, one.destination, trace=self._trace)
        else:
            manager.machine(one.destination)
            self._end(one, COMPLETED, "")
            return
        self._moving[one.operation_id] = operation
        del self._left[one.operation_id]

    def _end(self, one: Procedure, status: str, message: str) -> None:
        del self._left[one.operation_id]
        self._end_moved(one.operation_id, status, message)

    def _end_moved(self, operation_id: int, status: str, message: str) -> None:
        result: dict[str, object] = {"operationID": operation_id, "status": status}
        if message:
            result["responseBody"] = {"code": "E50000", "message": message}
        self._results[operation_id] = result


async def apply(request: Request, manager: Manager, layout: Layout, *, trace: str) -> str:
    """Begin a layout; its id when that is kept. Raises Refusal (409, E40010) while another runs, FabricError."""
    running = next((one.apply_id for one in manager.layouts.values() if one.status == IN_PROGRESS), None)
    if running is not None:
        raise Refusal(409, "E40010", f"layout-apply {running} is running; one at a time")
    newest = max((int(one, 16) for one in manager.layouts), default=0)
    run = LayoutRun(manager, layout, apply_id=f"{newest + 1:010x}", trace=trace)
    run.begin()
    manager.layouts[run.record.apply_id] = run.record
    for oldest in tuple(manager.layouts)[:-LAYOUTS_KEPT]:
        del manager.layouts[oldest]
    moving = run.moving
    task = asyncio.create_task(run.finish(), name=f"layout {run.record.apply_id}")
    manager.tasks.add(task)
    task.add_done_callback(manager.tasks.discard)
    await manager.keep()
    await manager.spoil(request, moving, halves=False)
    return run.record.apply_id


def after_restart(record: LayoutRecord, *, now: int) -> LayoutRecord:
    """What is known of a layout after the process that carried it out is gone: one that ran has failed."""
    if record.status != IN_PROGRESS:
        return record
    return record.model_copy(update={"status": FAILED, "ended": now})
