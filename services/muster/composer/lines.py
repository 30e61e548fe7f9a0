"""From the settings to what makes the calls: one line per fabric."""

from collections.abc import Mapping, Sequence
from functools import partial

from muster.bus.settings import FabricSettings, Settings
from muster.composer.calls import FabricCalls, Line
from muster.composer.operator_driver import OperatorDriver
from muster.core.settings import GroupSettings
from muster.fabric.driver import FabricDriver
from muster.fabric.open import UnopenedDriver, open_driver
from muster.fabric.token import CredentialsError
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.fabric import OperatorSeen

SURVEY_S_MAX = 60.0
"""One look at one fabric, even where its calls may take longer."""


def fabric_calls(settings: Settings) -> FabricCalls:
    """All fabrics of the settings. One that cannot be opened is unavailable and says why; the others go on."""
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
    """What may lie in its pool, as (type, model): some managers must be asked for each."""
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
