"""What the composer remembers of attachments, requests and fabrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made_by

from muster.composer.core.limits import AWAY_MAX
from muster.core import Instant
from muster.schemas.devices import GPU, AttachmentPhase, ComposabilitySpec, Origin, PoolModel, RequestPhase
from muster.schemas.facts.composability import RequestWish
from muster.schemas.facts.device import (
    AttachmentRequested,
    AttachmentState,
    CallFailure,
    DetachWish,
)
from muster.schemas.facts.fabric import DeviceAway, OperatorSeen, OrphanState

NEVER = Instant(0)
Kind = tuple[str, str]
"""Type and model of a device."""

UNKNOWN_EFFECT = frozenset({CallFailure.TIMEOUT, CallFailure.NONSENSE, CallFailure.ABANDONED})
"""After these nobody knows whether the call was, or will yet be, carried out."""
COUNTED = frozenset({CallFailure.TIMEOUT, CallFailure.UNAVAILABLE, CallFailure.NONSENSE})
"""Failures that speak against the fabric: so many in a row trip its breaker."""
CALLING = (AttachmentPhase.ATTACHING, AttachmentPhase.DETACHING)
STANDING = (AttachmentPhase.ATTACHED, AttachmentPhase.VISIBLE, AttachmentPhase.ONLINE)
LEAVING = (AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING)


@dataclass(slots=True)
class Attachment:
    """One device of a request, from the wish to its return. Fields as in `AttachmentState`."""

    id: str
    requested: AttachmentRequested
    phase: AttachmentPhase = AttachmentPhase.REQUESTED
    device_uuid: str = ""
    device_id: str = ""
    memory_mib: int = 0
    attempt: int = 0
    deadline_at: Instant = NEVER
    retry_at: Instant = NEVER
    failure: CallFailure | None = None
    error: str = ""
    request_id: str = ""
    force: bool = False
    is_withheld: bool = False
    requested_at: Instant = NEVER
    since: Instant = NEVER
    last_fact: str = ""
    trace: str = ""
    said: bool = True
    failed_at: Instant = NEVER
    attempts_before: int = 0
    withholds: int = 0
    holders: tuple[str, ...] = ()
    wish: DetachWish | None = None
    wanted_at: Instant = NEVER
    before: AttachmentPhase | None = None
    withdrawn_id: str = ""

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

    def state(self) -> AttachmentState:
        """As a state fact."""
        return AttachmentState(
            requested=self.requested, phase=self.phase, device_uuid=self.device_uuid, device_id=self.device_id,
            memory_mib=self.memory_mib, attempt=self.attempt, deadline_at=self.deadline_at, retry_at=self.retry_at,
            failure=self.failure, error=self.error, request_id=self.request_id, force=self.force,
            is_withheld=self.is_withheld, requested_at=self.requested_at, since=self.since, last_fact=self.last_fact,
            trace=self.trace, said=self.said, failed_at=self.failed_at, attempts_before=self.attempts_before,
            withholds=self.withholds, holders=self.holders, wish=self.wish, wanted_at=self.wanted_at,
            before=self.before, withdrawn_id=self.withdrawn_id,
        )  # fmt: skip

    @classmethod
    def of(cls, id: str, state: AttachmentState) -> "Attachment":  # noqa: A002 - the field's word
        """From a state fact."""
        return cls(
            id, state.requested, phase=state.phase, device_uuid=state.device_uuid, device_id=state.device_id,
            memory_mib=state.memory_mib, attempt=state.attempt, deadline_at=Instant(state.deadline_at),
            retry_at=Instant(state.retry_at), failure=state.failure, error=state.error, request_id=state.request_id,
            force=state.force, is_withheld=state.is_withheld, requested_at=Instant(state.requested_at),
            since=Instant(state.since), last_fact=state.last_fact, trace=state.trace, said=state.said,
            failed_at=Instant(state.failed_at), attempts_before=state.attempts_before, withholds=state.withholds,
            holders=state.holders, wish=state.wish, wanted_at=Instant(state.wanted_at), before=state.before,
            withdrawn_id=state.withdrawn_id,
        )  # fmt: skip


@dataclass(slots=True)
class Request:
    """A ComposabilityRequest. spec None: only wishes that are not answered. attachments: those that are not over.

    deleting: its devices go back; failed: because it could not be had as asked. was_running: it had all, once.
    error: what went wrong last.
    """

    name: str
    spec: ComposabilitySpec | None = None
    phase: RequestPhase = RequestPhase.NODE_ALLOCATING
    error: str = ""
    field: str = ""
    principal: str = ""
    origin: Origin = Origin.REQUEST
    jobs: tuple[str, ...] = ()
    scale: str = ""
    all_or_nothing: bool = False
    deleting: bool = False
    failed: bool = False
    was_running: bool = False
    force: bool = False
    may_force: bool = False
    since: Instant = NEVER
    last_fact: str = ""
    trace: str = ""
    wishes: dict[str, RequestWish] = made_by(default_factory=dict)
    attachments: dict[str, None] = made_by(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether it was accepted and is not over."""
        return self.spec is not None and self.phase not in (RequestPhase.REFUSED, RequestPhase.ENDED)


@dataclass(slots=True)
class Fabric:
    """One fabric as the log has it. pool: free and attached, kept right by every `attached` and `detached`.

    is_surveyed: its pool was told of. failures: calls in a row that speak against it. retry_at: its breaker is open
    until then, and half open afterwards; 0: closed. succeeded_at: when a call last did what it was asked.
    moved_at: when a device last came or went. away: devices that went back to the pool, by id, newest last. operator:
    what the field's operator has, where that moves the devices.
    """

    name: str
    pool: dict[Kind, PoolModel] = made_by(default_factory=dict)
    is_surveyed: bool = False
    failures: int = 0
    opened_at: Instant = NEVER
    retry_at: Instant = NEVER
    error: str = ""
    failure: CallFailure | None = None
    orphans: dict[str, OrphanState] = made_by(default_factory=dict)
    since: Instant = NEVER
    last_fact: str = ""
    succeeded_at: Instant = NEVER
    moved_at: Instant = NEVER
    away: dict[str, DeviceAway] = made_by(default_factory=dict)
    uuids_away: dict[str, str] = made_by(default_factory=dict)
    operator: OperatorSeen | None = None

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


def pool_of(models: Mapping[Kind, PoolModel]) -> tuple[PoolModel, ...]:
    """As facts list them."""
    return tuple(models[kind] for kind in sorted(models))
