"""What the composer remembers of attachments, requests and fabrics."""

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
"""After these nobody knows whether the call was, or will yet be, carried out."""
COUNTED = frozenset({CallFailure.TIMEOUT, CallFailure.UNAVAILABLE, CallFailure.NONSENSE})
"""Failures that speak against the fabric: so many in a row trip its breaker."""
CALLING = (AttachmentPhase.ATTACHING, AttachmentPhase.DETACHING)
STANDING = (AttachmentPhase.ATTACHED, AttachmentPhase.VISIBLE, AttachmentPhase.ONLINE)
LEAVING = (AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING)


@dataclass(slots=True, kw_only=True)
class Attachment(AttachmentState):
    """One device of a request, from the wish to its return."""

    id: str

    @property
    def fabric(self) -> str:
        """Which fabric moves it."""
        return self.requested.fabric

    @property
    def machine(self) -> str:
        """Where it goes, or stands."""
        return self.requested.machine

    @property
    def kind(self) -> Kind:
        """What it is."""
        return self.requested.type, self.requested.model

    @property
    def is_gpu(self) -> bool:
        """Whether its node shows it by uuid, and the scheduler grants it by itself."""
        return self.requested.type == GPU

    @property
    def is_calling(self) -> bool:
        """Whether a call was begun of which the log has no outcome."""
        return self.failure is None and self.phase in CALLING

    @property
    def has_device(self) -> bool:
        """Whether a device on a machine is its own."""
        return bool(self.device_id) and not self.phase.is_over

    @property
    def is_coming(self) -> bool:
        """Whether it has no device yet, and one is reserved for it."""
        return self.phase in (AttachmentPhase.REQUESTED, AttachmentPhase.ATTACHING)

    @property
    def is_unsure(self) -> bool:
        """Whether its last call failed, and may have been carried out all the same."""
        return self.failure in UNKNOWN_EFFECT

    @property
    def settled_at(self) -> Instant:
        """When the last call that failed can have no more effect. A look that begins later shows what it did."""
        return max(self.deadline_at, self.failed_at) if self.is_unsure else self.failed_at

    @property
    def calls(self) -> int:
        """Calls made in the present direction."""
        return self.attempt - self.attempts_before

    def overdue_at(self, bounds: Bounds) -> Instant:
        """Return when no further call is begun in the present direction."""
        if self.phase in LEAVING:
            return after(self.wanted_at, self.withhold_s(bounds) + bounds.detach_s_max)
        return after(self.requested_at, bounds.attach_s_max)

    def withhold_s(self, bounds: Bounds) -> float:
        """Return how long the scheduler may take to withhold it."""
        is_scaler = self.wish is not None and bool(self.wish.scale)
        return bounds.scaler_withhold_s if is_scaler else bounds.withhold_s_max


@dataclass(slots=True, kw_only=True)
class Request(RequestState):
    """A ComposabilityRequest."""

    name: str
    attachments: dict[str, None] = field(default_factory=dict)
    """Ids of those that are not over."""

    @property
    def is_live(self) -> bool:
        """Whether it was accepted and is not over."""
        return self.spec is not None and self.phase not in (RequestPhase.REFUSED, RequestPhase.ENDED)


@dataclass(slots=True, kw_only=True)
class Fabric(FabricState):
    """One fabric as the log has it."""

    name: str
    uuids_away: dict[str, str] = field(init=False)
    """Ids of devices that went back to the pool, by uuid."""

    def __post_init__(self) -> None:
        self.uuids_away = {device.device_uuid: device.device_id for device in self.away.values()}

    def is_open(self, now: Instant) -> bool:
        """Return whether the breaker lets no call through."""
        return bool(self.retry_at) and now < self.retry_at

    def is_probing(self, now: Instant) -> bool:
        """Return whether the breaker lets one call through, to see."""
        return bool(self.retry_at) and now >= self.retry_at

    def breaker_at(self, now: Instant) -> BreakerState:
        """Return the state of the breaker, as views show it."""
        if not self.retry_at:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self.is_open(now) else BreakerState.HALF_OPEN

    def take_away(self, device: DeviceAway) -> bool:
        """It went back to the pool. So many are remembered; whether the oldest was forgotten for it."""
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
        """When the device went back to the pool; NEVER if that is not known."""
        known = self.away.get(device_id)
        return Instant(known.at) if known is not None else NEVER

    def free(self, kind: Kind) -> int:
        """Devices in the pool, those included that are reserved."""
        known = self.pool.get(kind)
        return known.free if known is not None else 0

    def move(self, kind: Kind, *, free: int, attached: int) -> None:
        """So many more are free, and attached."""
        known = self.pool.get(kind) or PoolModel(type=kind[0], model=kind[1])
        self.pool[kind] = PoolModel(
            type=kind[0],
            model=kind[1],
            free=max(0, known.free + free),
            attached=max(0, known.attached + attached),
        )


Record = TypeVar("Record")


class Store(Mapping[str, Record]):
    """Records by name, in the order in which they came."""

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
        """Begin a request anew, with the wishes that it has."""
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
        """Return the fabric, also one that is not configured any more."""
        known = self._all.get(name)
        if known is None:
            known = self._all[name] = Fabric(name=name)
        return known

    def put(self, fabric: Fabric) -> None:
        """Set a fabric, also one from a checkpoint."""
        self._all[fabric.name] = fabric


def pool_of(models: Mapping[Kind, PoolModel]) -> tuple[PoolModel, ...]:
    """As facts list them."""
    return tuple(models[kind] for kind in sorted(models))
