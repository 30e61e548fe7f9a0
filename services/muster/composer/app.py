"""Run the composer: its facts and questions, and from the settings a driver for each fabric.

Only the Composable Resource Operator may move devices of its fabric, or it takes them back. A call is then an object
that the agent creates when it folds the intent, `attaching` or `detaching`; the driver here waits for the result in the
agent's reports of the operator's devices. A device is attached when it is Online.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import FabricSettings, Settings
from muster.composer.calls import FabricCalls, Line
from muster.composer.core import answers
from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.composer.declaration import DECLARATION
from muster.core.settings import GroupSettings
from muster.fabric.bounds import PARALLEL_MAX
from muster.fabric.driver import (
    AttachOrder,
    DetachOrder,
    FabricDriver,
    FabricTimeoutError,
    FabricUnavailableError,
    Inventory,
    MachineDevice,
)
from muster.fabric.layout import machine_id, node_name
from muster.fabric.open import UnopenedDriver, open_driver
from muster.fabric.token import CredentialsError
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.fabric import OperatorDevice, OperatorSeen
from muster.schemas.registry import StreamRole

ONLINE = "Online"
LOOK_S = 0.1
"""Between two checks of the reports."""
FREE_UNKNOWN = 64
"""Devices of a model that are assumed free: the operator reports only by an error that there are none."""


class OperatorDriver:
    """A driver that waits for the operator; `seen` is the agent's last report, None before the first."""

    parallel_max = 1_024

    def __init__(
        self, seen: Callable[[], OperatorSeen | None], *, models: Iterable[tuple[str, str]], call_s: float
    ) -> None:
        self._seen = seen
        self._models = tuple(models)
        self._call_s = call_s
        self._waiting: Counter[tuple[str, str, str]] = Counter()
        self._before: dict[tuple[str, str, str], int] = {}

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Wait until one more device is Online than before and than others wait for. Raises FabricTimeoutError."""
        key = order.machine, order.type, order.model
        if not self._waiting[key]:
            self._before[key] = len(self._online(order))
        self._waiting[key] += 1
        wanted = self._before[key] + self._waiting[key]
        try:
            async with asyncio.timeout(self._call_s):
                while len(found := self._online(order)) < wanted:  # noqa: ASYNC110 - facts tell, in another task
                    await asyncio.sleep(LOOK_S)
            self._before[key] += 1
        except TimeoutError as error:
            why = "; ".join(dict.fromkeys(one.error for one in self._of(order.machine) if one.error))
            raise FabricTimeoutError(
                f"the operator did not attach a {order.model}: {why or 'it says nothing'}"
            ) from error
        finally:
            self._waiting[key] -= 1
        return tuple(map(_device, found))

    async def detach(self, order: DetachOrder) -> bool:
        """Wait until the operator no longer has the device. Raises FabricTimeoutError."""
        if not self._has(order):
            return False
        try:
            async with asyncio.timeout(self._call_s):
                while self._has(order):  # noqa: ASYNC110 - the same
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise FabricTimeoutError(f"the operator did not take {order.device_id} away") from error
        return True

    async def survey(self) -> Inventory:
        """Return the operator's devices for Muster. Raises FabricUnavailableError before the first report."""
        told = self._seen()
        if told is None:
            raise FabricUnavailableError("the agent has not reported the operator's devices yet")
        machines: dict[str, list[MachineDevice]] = {}
        for one in told.devices:
            if one.state == ONLINE:
                machines.setdefault(one.node, []).append(_device(one))
        return Inventory(
            free=dict.fromkeys(self._models, FREE_UNKNOWN), machines={name: tuple(on) for name, on in machines.items()}
        )

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _of(self, machine: str) -> list[OperatorDevice]:
        told = self._seen()
        return [] if told is None else [one for one in told.devices if one.node == machine]

    def _online(self, order: AttachOrder) -> list[OperatorDevice]:
        return [
            one
            for one in self._of(order.machine)
            if (one.state, one.type, one.model) == (ONLINE, order.type, order.model)
        ]

    def _has(self, order: DetachOrder) -> bool:
        return any(one.device_id == order.device_id for one in self._of(order.machine))


def _device(one: OperatorDevice) -> MachineDevice:
    return MachineDevice(one.device_id or one.name, one.device_uuid, one.model, one.type)


SURVEY_S_MAX = 60.0
"""Timeout of one survey of a fabric, even where calls may take longer."""


def fabric_calls(settings: Settings) -> FabricCalls:
    """Return all fabrics of the settings. One that cannot be opened is unavailable with a reason; others work."""
    groups = settings.scaling.groups
    lines, seen = dict[str, Line](), dict[str, OperatorSeen]()
    for fabric in settings.fabrics:
        models = models_of(fabric, groups)
        lines[fabric.name] = Line(
            open=partial(_opened, fabric, models, seen),
            limit=fabric.limit,
            survey_s=min(fabric.call_s, SURVEY_S_MAX),
            models=models,
        )
    return FabricCalls(lines, seen)


def models_of(fabric: FabricSettings, groups: Sequence[GroupSettings]) -> tuple[tuple[str, str], ...]:
    """Return the (type, model) pairs that its pool may have: some managers must be queried for each."""
    gpus = [model for group in groups if group.fabric == fabric.name for model in group.gpu_models]
    memory = list(fabric.memory_models)
    if fabric.simulated is not None:
        gpus += fabric.simulated.pool
        memory += fabric.simulated.memory_pool
    return tuple(dict.fromkeys([*((GPU, model) for model in gpus), *((CXL_MEMORY, model) for model in memory)]))


def _opened(
    fabric: FabricSettings, models: tuple[tuple[str, str], ...], seen: Mapping[str, OperatorSeen]
) -> FabricDriver:
    if fabric.driver == "operator":
        return OperatorDriver(partial(seen.get, fabric.name), models=models, call_s=fabric.call_s)
    try:
        return open_driver(fabric, models=models)
    except (CredentialsError, ValueError) as error:
        return UnopenedDriver(str(error))


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the composer of one cluster. The object that makes calls is both the core's port and the sink."""
    config, calls = config_of(settings), fabric_calls(settings)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: ComposerCore(calls, config),
            queries={
                "devices": answers.answer_devices,
                "requests": answers.answer_requests,
                "compose-check": answers.answer_compose_check,
                "detach-check": answers.answer_detach_check,
            },
            sink=lambda: calls,
        ),
    )


def config_of(settings: Settings) -> ComposerConfig:
    """Return the composer's configuration, with the composable groups."""
    scaling = settings.scaling
    return ComposerConfig(
        fabrics=tuple(
            FabricConfig(
                name=fabric.name,
                driver=fabric.driver,
                limit=min(fabric.limit, PARALLEL_MAX[fabric.driver]),
                call_s=fabric.call_s,
            )
            for fabric in settings.fabrics
        ),
        groups=tuple(
            GroupConfig(
                name=group.name,
                fabric=group.fabric,
                gpu_models=group.gpu_models,
                gpus_max=group.gpus_max,
                machines=tuple(_machines(group)),
            )
            for group in scaling.groups
            if group.composable
        ),
        may_not_coexist=scaling.may_not_coexist,
        bounds=Bounds(**dict(settings.composer), scaler_withhold_s=scaling.withhold_s),
    )


def _machines(group: GroupSettings) -> Iterator[tuple[str, str]]:
    """Yield the machines of nodes that are named by the layout; other nodes report their machines when they join."""
    for index in range(1, max(group.nodes, group.nodes_max) + 1):
        node = node_name(group.name, index)
        yield machine_id(node), node
