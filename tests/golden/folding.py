"""Folding a golden log into fresh cores of every service that folds it, and comparing what came of it."""

import dataclasses
import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum

from pydantic import BaseModel

from golden.logs import settings
from muster.agent import app as agent
from muster.bus.fold import Folder
from muster.bus.ports import Batch
from muster.bus.service import CoreService
from muster.composer import app as composer
from muster.composer.core.core import ComposerCore
from muster.composer.core.fabrics import Call, Observation
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.federation import app as federation
from muster.guard import app as guard
from muster.health import app as health
from muster.projector import app as projector
from muster.scaler import app as scaler
from muster.scheduler import app as scheduler
from muster.schemas.subjects import LogName
from muster.telemetry import app as telemetry
from muster.upgrader import app as upgrader

_PLAIN = (str, bytes, int, float, bool, type(None), Enum)
_APPS = (scheduler, agent, scaler, composer, guard, health, projector, federation, telemetry, upgrader)


class SilentFabrics:
    """The composer's port as one has it who leads from now on: no call is its own, and no fabric says anything.

    taken: the calls that were folded and of which the log does not tell the outcome.
    """

    def __init__(self) -> None:
        self.taken: dict[tuple[str, int], Call] = {}

    def carry_out(self, call: Call) -> None:
        """See Fabrics.carry_out."""
        self.taken[call.order, call.attempt] = call

    def is_under_way(self, order: str, attempt: int) -> bool:
        """See Fabrics.is_under_way."""
        return False

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        """See Fabrics.ask_survey."""

    def observe(self, now: Instant) -> Sequence[Observation]:
        """See Fabrics.observe."""
        return ()

    def acknowledge(self, order: str, attempt: int) -> None:
        """See Fabrics.acknowledge."""
        self.taken.pop((order, attempt), None)

    def next_change(self) -> Instant | None:
        """See Fabrics.next_change."""
        return None


def services_of(log: LogName) -> dict[str, CoreService]:
    """Every service that folds this log, as `muster serve` hosts it, but for the composer's port: it calls nobody."""
    hosted = [service for app in _APPS for service in app.services(settings())]
    return {
        service.declaration.service: _without_calls(service) if service.declaration is composer.DECLARATION else service
        for service in hosted
        if isinstance(service, CoreService) and service.role is log.role
    }


def _without_calls(service: CoreService) -> CoreService:
    config = composer.config_of(settings())
    return dataclasses.replace(service, core=lambda: ComposerCore(SilentFabrics(), config), sink=None)


def new_folder(service: CoreService) -> Folder:
    """An empty core and its place in the log."""
    return Folder(service.declaration.service, service.core(), voided=(), take=lambda *_: None)


def fold(folder: Folder, facts: Sequence[Fact]) -> Core:
    """Fold facts as the shell does."""
    if facts:
        folder.fold(Batch(tuple(facts), facts[-1].seq, facts[-1].time, 0))
    return folder.core


def folded(service: CoreService, facts: Sequence[Fact]) -> Core:
    """A fresh core that folded these facts."""
    return fold(new_folder(service), facts)


def recovered(service: CoreService, state: Iterable[Fact], *, seq: int, time: Instant) -> Folder:
    """A fresh core that folded a checkpoint."""
    folder = new_folder(service)
    folder.restore(state, seq=seq, time=time)
    return folder


def picture(value: object) -> object:
    """All that a core holds, to the last private field, as plain values that compare and print alike in any process.

    Objects that refer to each other are named by the order in which they are met. Code (bound methods, tables of
    handlers) is left out: it is no state.
    """
    return _picture(value, {})


def digest(value: object) -> str:
    """Of a picture: short enough to be compared between processes."""
    return hashlib.sha256(repr(picture(value)).encode()).hexdigest()


def _picture(value: object, met: dict[int, int]) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, BaseModel):
        return value.__class__.__name__, value.model_dump_json()
    if id(value) in met:
        return f"seen #{met[id(value)]}"
    met[id(value)] = len(met)
    if isinstance(value, Set):
        return "set", sorted(repr(_picture(one, dict(met))) for one in value)
    if isinstance(value, Counter):
        return "counter", sorted((repr(_picture(key, dict(met))), number) for key, number in value.items())
    if isinstance(value, Mapping):
        return "mapping", [(_picture(key, met), _picture(one, met)) for key, one in value.items() if not _is_code(one)]
    if isinstance(value, list | tuple | deque):
        return value.__class__.__name__, [_picture(one, met) for one in value]
    fields = sorted((name, one) for name, one in _fields(value).items() if not _is_code(one))
    return value.__class__.__name__, [(name, _picture(one, met)) for name, one in fields]


def _is_code(value: object) -> bool:
    return callable(value) and not dataclasses.is_dataclass(value)


def _fields(value: object) -> dict[str, object]:
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    return {
        **{name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)},
        **getattr(value, "__dict__", {}),
    }
