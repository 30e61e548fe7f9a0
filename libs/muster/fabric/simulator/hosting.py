"""A manager from its settings, with what an earlier process kept of it."""

from collections.abc import Sequence
from pathlib import Path

from muster.bus.settings import FabricSettings
from muster.core.scaling_settings import GroupSettings
from muster.fabric.simulator.build import build_model, machines_of
from muster.fabric.simulator.clock import FabricClock, RunningClock
from muster.fabric.simulator.layouts import after_restart
from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.saved import LayoutRecord, SavedStateError, dump, load
from muster.fabric.simulator.store import FabricStore
from muster.fabric.simulator.tokens import Tokens, read_login


def open_manager(
    fabric: FabricSettings,
    groups: Sequence[GroupSettings] = (),
    *,
    path: Path | None = None,
    clock: FabricClock | None = None,
) -> Manager:
    """A manager that can be served.

    path: where it is kept, None for nowhere. clock: None runs with the machine's. Raises ValueError (settings),
    SavedStateError (names the file), OSError, pydantic.ValidationError (credentials).
    """
    model = build_model(fabric, groups)
    layouts: tuple[LayoutRecord, ...] = ()
    if path is not None and path.exists():
        try:
            layouts = load(model, path.read_bytes())
        except SavedStateError as error:
            raise SavedStateError(f"{path}: {error}") from error
    assert fabric.simulated is not None, "build_model asks for it"
    login = read_login(fabric.credentials) if fabric.credentials is not None else None
    manager = Manager(
        model=model,
        settings=fabric,
        machines=machines_of(fabric, groups),
        clock=clock or RunningClock(not_before=model.now),
        tokens=Tokens(fabric.name, login, fabric.simulated.token_s) if login is not None else None,
        layouts={record.apply_id: after_restart(record, now=model.now) for record in layouts},
    )
    if path is not None:
        manager.store = FabricStore(path, lambda: dump(model, tuple(manager.layouts.values())))
    return manager
