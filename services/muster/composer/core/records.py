"""Records of attachments, requests and fabrics."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from muster.composer.core.limits import AWAY_MAX, ENDED_MAX, Bounds
from muster.core import NEVER, Instant, after
from muster.schemas.devices import GPU, AttachmentPhase, BreakerState, PoolModel, RequestPhase
from muster.schemas.facts.composability import RequestState
from muster.schemas.facts.device import AttachmentState, CallFailure
from muster.schemas.facts.fabric import DeviceAway, FabricState

Kind = tuple[str, str]
"""Type and model of a device."""

UNKNOWN_EFFECT = frozenset({CallFailure.TIMEOUT, CallFailure.NONSENSE, CallFailure.ABANDONED})
"""Failures after which it is unknown whether the call was, or will be, carried out."""
COUNTED = frozenset({CallFailure.TIMEOUT, CallFailure.UNAVAILABLE, CallFailure.NONSENSE})
"""Failures that count for the breaker of the fabric."""
CALLING = (AttachmentPhase.ATTACHING, AttachmentPhase.DETACHING)
STANDING = (AttachmentPhase.ATTACHED, AttachmentPhase.VISIBLE, AttachmentPhase.ONLINE)
LEAVING = (AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING)


@dataclass(slots=True, kw_only=True)
class Attachment(AttachmentState):
    """One device of a request, from the request to its return."""

    id: str

    @property
    def fabric(self) -> str:
        """Return its fabric."""
        return self.requested.fabric

    @property
    def machine(self) -> str:
        """Return its machine."""
        return self.requested.machine

    @property
    def kind(self) -> Kind:
        """Return its kind."""
        return self.requested.type, self.requested.model

    @property
    def is_gpu(self) -> bool:
        """Return whether its node shows it by uuid, and the scheduler grants it by itself."""
        return self.requested.type == GPU

    @property
    def is_calling(self) -> bool:
        """Return whether a call was begun whose outcome is not in the log."""
        return self.failure is None and self.phase in CALLING

    @property
    def has_device(self) -> bool:
        """Return whether it owns a device on a machine."""
        return bool(self.device_id) and not self.phase.is_over

    @property
    def is_coming(self) -> bool:
        """Return whether a device is reserved for it that it does not have yet."""
        return self.phase in (AttachmentPhase.REQUESTED, AttachmentPhase.ATTACHING)

    @property
    def is_unsure(self) -> bool:
        """Return whether its last call failed with an unknown outcome."""
        return self.failure in UNKNOWN_EFFECT

    @property
    def settled_at(self) -> Instant:
        """Return when the last failed call can have no more effect: a survey that begins later shows it."""
        return max(self.deadline_at, self.failed_at) if self.is_unsure else self.failed_at

    @property
    def calls(self) -> int:
        """Return the calls made in the current direction."""
        return self.attempt - self.attempts_before

    def overdue_at(self, bounds: Bounds) -> Instant:
        """Return when no further call begins in the current direction."""
        if self.phase in LEAVING:
            return after(self.wanted_at, self.withhold_s(bounds) + bounds.detach_s_max)
        return after(self.requested_at, bounds.attach_s_max)

    def withhold_s(self, bounds: Bounds) -> float:
        """Return how long the scheduler may take to drain it."""
        is_scaler = self.wish is not None and bool(self.wish.scale)
        return bounds.scaler_withhold_s if is_scaler else bounds.withhold_s_max


@dataclass(slots=True, kw_only=True)
class Request(RequestState):
    """A ComposabilityRequest."""

    name: str
    attachments: dict[str, None] = field(default_factory=dict)
    """Ids of its attachments that are not over."""

    @property
    def is_live(self) -> bool:
        """Return whether it was accepted and is not over."""
        return self.spec is not None and self.phase not in (RequestPhase.REFUSED, RequestPhase.ENDED)


@dataclass(slots=True, kw_only=True)
class Fabric(FabricState):
    """One fabric as in the log."""

    name: str
    uuids_away: dict[str, str] = field(init=False)
    """Ids of devices that went back to the pool, by uuid."""

    def __post_init__(self) -> None:
        self.uuids_away = {device.device_uuid: device.device_id for device in self.away.values()}

    def is_open(self, now: Instant) -> bool:
        """Return whether the breaker lets no call through."""
        return bool(self.retry_at) and now < self.retry_at

    def is_probing(self, now: Instant) -> bool:
        """Return whether the breaker lets one trial call through."""
        return bool(self.retry_at) and now >= self.retry_at

    def breaker_at(self, now: Instant) -> BreakerState:
        """Return the state of the breaker, as views show it."""
        if not self.retry_at:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self.is_open(now) else BreakerState.HALF_OPEN

    def take_away(self, device: DeviceAway) -> bool:
        """Record a device that went back to the pool; return whether the oldest was forgotten."""
        self.away.pop(device.device_id, None)
        self.away[device.device_id] = device
        self.uuids_away[device.device_uuid] = device.device_id
        if len(self.away) <= AWAY_MAX:
            return False
        old = self.away.pop(next(iter(self.away)))
        if self.uuids_away.get(old.device_uuid) == old.device_id:
            del self.uuids_away[old.device_uuid]
        return True

    def away_at(self, device_id: str) -> Instant:
        """Return when the device went back to the pool; NEVER if unknown."""
        known = self.away.get(device_id)
        return Instant(known.at) if known is not None else NEVER

    def free(self, kind: Kind) -> int:
        """Return the devices in the pool, including reserved ones."""
        known = self.pool.get(kind)
        return known.free if known is not None else 0

    def move(self, kind: Kind, *, free: int, attached: int) -> None:
        """Change the numbers of free and attached devices."""
        known = self.pool.get(kind) or PoolModel(type=kind[0], model=kind[1])
        self.pool[kind] = PoolModel(
            type=kind[0],
            model=kind[1],
            free=max(0, known.free + free),
            attached=max(0, known.attached + attached),
        )


Record = TypeVar("Record")


class Store(Mapping[str, Record]):
    """Records by name, in insertion order."""

    def __init__(self) -> None:
        self._all: dict[str, Record] = {}

    def __getitem__(self, name: str) -> Record:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


class Requests(Store[Request]):
    """All requests by name, written by the fold; of those that ended, the newest `ENDED_MAX`."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: dict[str, None] = {}

    def ensure(self, name: str) -> Request:
        """Return the request, a new one if there is none."""
        known = self._all.get(name)
        if known is None:
            known = self._all[name] = Request(name=name)
        return known

    def put(self, request: Request) -> None:
        """Take a request from a checkpoint."""
        self._all[request.name] = request

    def forget(self, name: str) -> None:
        """Drop a request that was never accepted."""
        del self._all[name]

    def end(self, request: Request, phase: RequestPhase, at: Instant) -> None:
        """End a request; the newest that ended are kept for queries."""
        request.phase, request.since = phase, at
        self._ended.pop(request.name, None)
        self._ended[request.name] = None
        for name in list(self._ended)[: max(0, len(self._ended) - ENDED_MAX)]:
            del self._ended[name]
            old = self._all.get(name)
            if old is not None and not old.is_live and not old.wishes:
                del self._all[name]

    def renew(self, name: str) -> Request:
        """Restart a request, with its open parts."""
        known = self._all.get(name)
        self._ended.pop(name, None)
        fresh = Request(name=name)
        if known is not None:
            fresh.wishes = known.wishes
        self._all[name] = fresh
        return fresh


class FabricRecords(Store[Fabric]):
    """All fabrics by name, written by the fold: the configured ones, and those that attachments still name."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        for name in names:
            self.put(Fabric(name=name))

    def ensure(self, name: str) -> Fabric:
        """Return the fabric, even one that is no longer configured."""
        known = self._all.get(name)
        if known is None:
            known = self._all[name] = Fabric(name=name)
        return known

    def put(self, fabric: Fabric) -> None:
        """Set a fabric, also from a checkpoint."""
        self._all[fabric.name] = fabric


def pool_of(models: Mapping[Kind, PoolModel]) -> tuple[PoolModel, ...]:
    """Return the pool as facts list it."""
    return tuple(models[kind] for kind in sorted(models))
