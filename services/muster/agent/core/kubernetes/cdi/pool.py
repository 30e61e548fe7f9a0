"""Publish devices of a fabric's pool as ResourceSlices, so that claims of other schedulers can request them (KEP-5007).

A pool's slice names no node: its devices bind to any node of the fabric, and a claim with one waits for a condition.
The condition for success is `FabricDeviceReschedule`, as in CoHDI's driver: the scheduler then allocates the device
that the node publishes by now. The request for the devices lasts as long as the claim; then they go back.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.calls import (
    CONFLICT,
    NOT_FOUND,
    Create,
    Done,
    Kind,
    Outcome,
    Read,
    Refused,
    Replace,
)
from muster.agent.core.kubernetes.cdi.request_book import CLAIMS, COMPOSE, DECOMPOSE, KIND, OVER, Request, RequestBook
from muster.agent.core.kubernetes.claims import ClaimView
from muster.agent.core.kubernetes.resources import rfc3339
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Fact, Instant, after
from muster.kube.objects import JsonObject, integer, mapping, objects, sequence, text, version_of
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.devices import GPU, ComposabilitySpec, PoolModel, RequestPhase
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, RequestAccepted
from muster.schemas.facts.device import (
    AttachmentRequested,
    AttachmentState,
    DeviceAttached,
    DeviceDetached,
)
from muster.schemas.facts.fabric import FabricState, FabricSurveyed

READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"
DEVICES_MAX = 128
"""Devices of one slice, and so of a pool: enough to show that there are free ones."""
LOOK_AGAIN_S = 300.0
"""Between two checks whether a pool's slice is still as written."""
REFUSED_AGAIN_S = 10.0
API_VERSION = "resource.k8s.io/v1"
PREFIX = "claim-"


class PoolKey(NamedTuple):
    """One model in one fabric."""

    fabric: str
    model: str


class PoolBook:
    """Free devices: those of the newest survey, minus later attachments, plus returned ones."""

    def __init__(self) -> None:
        self._free: dict[PoolKey, int] = {}
        self._of: dict[str, PoolKey] = {}

    def free(self, key: PoolKey) -> int:
        """Return the number of devices in the pool."""
        return max(0, self._free.get(key, 0))

    def apply(self, fact: Fact) -> tuple[PoolKey, ...]:
        """Fold one fact. Return the pools whose number changed."""
        payload = fact.payload
        match payload:
            case FabricSurveyed():
                return self._survey(fact.subject_id, payload.pool)
            case FabricState() if payload.surveyed:
                return self._survey(fact.subject_id, payload.pool.values())
            case RequestAccepted():
                for order in payload.orders:
                    self._of[order.id] = PoolKey(order.fabric, order.model or payload.spec.model)
            case AttachmentRequested():
                self._of[fact.subject_id] = PoolKey(payload.fabric, payload.model)
            case AttachmentState() if not payload.phase.is_over:
                self._of[fact.subject_id] = PoolKey(payload.requested.fabric, payload.requested.model)
            case DeviceAttached() if payload.type == GPU and not payload.adopted:
                return self._move(fact.subject_id, -1)
            case DeviceDetached() if payload.type == GPU:
                changed = self._move(fact.subject_id, 1)
                self._of.pop(fact.subject_id, None)
                return changed
            case _:
                pass
        return ()

    def _survey(self, fabric: str, pool: Iterable[PoolModel]) -> tuple[PoolKey, ...]:
        before = {key: free for key, free in self._free.items() if key.fabric == fabric}
        now = {PoolKey(fabric, one.model): one.free for one in pool if one.type == GPU}
        for key in before:
            self._free.pop(key)
        self._free.update(now)
        return tuple(key for key in {**before, **now} if before.get(key) != now.get(key))

    def _move(self, attachment: str, by: int) -> tuple[PoolKey, ...]:
        key = self._of.get(attachment)
        if key is None:
            return ()
        self._free[key] = self._free.get(key, 0) + by
        return (key,)


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """Settings for published pools: driver, models, fabric numbers, and node groups of fabrics."""

    driver: str
    names: Mapping[str, str]
    fabrics: Mapping[str, int]
    groups: Mapping[str, Sequence[str]]
    group_label: str

    def pool(self, key: PoolKey) -> str:
        """Return the name of the pool and of its slice."""
        return f"{self.names[key.model]}-fabric{self.fabrics[key.fabric]}"


@dataclass(slots=True)
class _Claim:
    """A claim with devices of a pool, and its last condition (`told`)."""

    view: ClaimView
    key: PoolKey
    told: str = ""


@dataclass(frozen=True, slots=True)
class PoolPurpose(Purpose):
    """A call on published devices, or on a claim with some of them."""

    name: str


@dataclass(frozen=True, slots=True)
class PublishPool(PoolPurpose):
    """Read the slice of a pool, then write it if it differs."""

    is_read: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class TellClaim(PoolPurpose):
    """Read a claim, then set the condition of each of its pool devices."""

    view: ClaimView = field(compare=False, repr=False)
    condition: str = field(compare=False)
    is_read: bool = field(default=False, compare=False)


class Pool:
    """Published devices, and the claims that have them."""

    def __init__(self, policy: PoolPolicy, worklist: Worklist, book: RequestBook) -> None:
        self.policy = policy
        self.book = PoolBook()
        self._worklist = worklist
        worklist.serve(self, PoolPurpose)
        self._requests = book
        self._pools = {
            policy.pool(PoolKey(fabric, model)): PoolKey(fabric, model)
            for fabric in policy.fabrics
            for model in policy.names
        }
        self._dirty: dict[str, None] = {}
        self._claims: dict[str, _Claim] = {}  # by name of their request
        self._changed: dict[str, None] = {}
        self._news: dict[str, WordSeen] = {}
        self._again: dict[str, Instant] = {}
        self._look_at: Instant | None = None
        self._is_synced = False
        self.is_permitted = True
        """Whether slices may be written and claims read; set at the begin of a term."""
        book.followers.append(self._request_changed)

    # --- reports ---------------------------------------------------------------------------------------------

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        for key in self.book.apply(fact):
            if key.model in self.policy.names and key.fabric in self.policy.fabrics:
                self._dirty[self.policy.pool(key)] = None

    def acknowledge(self, seen: WordSeen) -> None:
        """Record that the log has a request."""
        self._changed[seen.subject] = None

    def _request_changed(self, name: str) -> None:
        if name.startswith(PREFIX):
            self._changed[name] = None

    def claim_seen(self, view: ClaimView) -> None:
        """Handle a new state of any claim."""
        name = PREFIX + view.uid
        mine = [place.pool for place in view.places if place.driver == self.policy.driver and place.pool in self._pools]
        known = self._claims.get(name)
        if mine and 0 < len(view.node) <= LABEL_CHARS_MAX:
            if known is None or known.view != view:
                self._claims[name] = _Claim(view, self._pools[mine[0]], known.told if known is not None else "")
                self._changed[name] = None
        elif known is None and self._is_asked(name):
            self._claims[name] = _Claim(view, PoolKey("", ""))
        elif known is not None:
            known.view = view  # it was given the node's own device: the request stands until the claim is gone
            known.told = ""

    def _is_asked(self, name: str) -> bool:
        request = self._requests.requests.get(name)
        return request is not None and request.asked_by == CLAIMS

    def claim_gone(self, uid: str) -> None:
        """Handle a deleted claim."""
        if self._claims.pop(PREFIX + uid, None) is not None:
            self._changed[PREFIX + uid] = None

    def synced(self) -> None:
        """Record that all claims were seen."""
        self._is_synced = True
        self._dirty.update(dict.fromkeys(self._pools))
        asked = (name for name, one in self._requests.requests.items() if one.asked_by == CLAIMS)
        self._changed.update(dict.fromkeys((*self._claims, *asked)))

    def reset(self) -> None:
        """Forget what was seen, because another process leads; what the log says stays."""
        self._is_synced, self._look_at = False, None
        for held in (self._claims, self._news, self._again):
            held.clear()

    # --- what follows ----------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self._news)

    def observations(self) -> Iterator[WordSeen]:
        """Yield requests of claims that the log lacks, as of the last `settle`."""
        yield from self._news.values()

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        moments = [*self._again.values(), *([self._look_at] if self._look_at is not None else [])]
        return min(moments, default=None)

    def settle(self, now: Instant) -> None:
        """Publish changes, request devices for claims, and set their conditions."""
        if not self._is_synced or not self.is_permitted:
            return
        if self._look_at is None or now >= self._look_at:
            self._look_at = after(now, LOOK_AGAIN_S)
            self._dirty.update(dict.fromkeys(self._pools))
        for name in [name for name, at in self._again.items() if at <= now]:
            del self._again[name]
            (self._dirty if name in self._pools else self._changed)[name] = None
        for name in [name for name in self._dirty if name not in self._again]:
            if self._worklist.ask(PublishPool(name), Read(Kind.SLICES, "", name)):
                del self._dirty[name]  # else what is under way knew less than we do now
        changed, self._changed = self._changed, {}
        for name in changed:
            word = self._word(name)
            if word is None:
                self._news.pop(name, None)
            else:
                self._news[name] = word
            claim, request = self._claims.get(name), self._requests.requests.get(name)
            condition = _condition(request)
            if claim is not None and condition and claim.told != condition and self._is_waiting(claim):
                call = Read(Kind.CLAIMS, claim.view.namespace, claim.view.name)
                self._worklist.ask(TellClaim(name, claim.view, condition), call)

    def answered(self, purpose: PoolPurpose, outcome: Outcome, now: Instant) -> None:
        """Continue after a call."""
        match purpose:
            case PublishPool(name, is_read=False):
                self._write(name, outcome, now)
            case PublishPool(name):
                if isinstance(outcome, Refused):
                    self._look_again(name, outcome, now)
            case TellClaim(is_read=False):
                self._tell(purpose, outcome, now)
            case TellClaim():
                self._told(purpose, outcome, now)

    def _look_again(self, name: str, refusal: Refused, now: Instant) -> None:
        self._again[name] = after(now, 0.0 if refusal.code == CONFLICT else REFUSED_AGAIN_S)

    def _is_waiting(self, claim: _Claim) -> bool:
        return any(place.pool in self._pools for place in claim.view.places)

    def _word(self, name: str) -> WordSeen | None:
        claim, request = self._claims.get(name), self._requests.requests.get(name)
        if claim is None:
            if request is None or request.asked_by != CLAIMS or request.going or request.phase in OVER:
                return None
            gone = DecomposeRequested(principal=CLAIMS, reason="its claim is gone")
            return WordSeen(KIND, name, DECOMPOSE, gone)
        if request is not None and request.asked is not None and not request.going:
            return None
        size = sum(place.pool in self._pools for place in claim.view.places)
        spec = ComposabilitySpec(model=claim.key.model, size=size, target_node=claim.view.node)
        return WordSeen(KIND, name, COMPOSE, ComposeRequested(spec=spec, principal=CLAIMS))

    # --- slices ----------------------------------------------------------------------------------------------

    def _write(self, name: str, outcome: Outcome, now: Instant) -> None:
        """Replace the slice that was read by the wanted one; create it if there is none."""
        key, written = self._pools[name], PublishPool(name, is_read=True)
        if isinstance(outcome, Refused) and outcome.code == NOT_FOUND:
            body = self._slice(name, key, generation=1)
            self._worklist.ask(written, Create(Kind.SLICES, "", name, body))
        elif isinstance(outcome, Refused):
            self._again[name] = after(now, REFUSED_AGAIN_S)
        elif isinstance(outcome, Done):
            raw = dict(outcome.reply)
            generation = integer(raw, "spec", "pool", "generation", default=1)
            wanted = self._slice(name, key, generation=generation)
            if _shown(raw) != _shown(wanted):
                body = self._slice(name, key, generation=generation + 1)
                body["metadata"] = {**mapping(raw, "metadata"), "resourceVersion": version_of(raw)}
                self._worklist.ask(written, Replace(Kind.SLICES, "", name, body))

    def _slice(self, name: str, key: PoolKey, *, generation: int) -> JsonObject:
        """Return the slice of a pool, with one device for each free one."""
        policy, device = self.policy, self.policy.names[key.model]
        group: JsonObject = {
            "key": policy.group_label, "operator": "In", "values": list(policy.groups.get(key.fabric, ())),
        }  # fmt: skip
        free = min(DEVICES_MAX, self.book.free(key))
        return {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "muster"}},
            "spec": {
                "driver": policy.driver,
                "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [group]}]},
                "devices": [_device(f"{device}-{number}", key.model) for number in range(free)],
            },
        }

    # --- conditions ------------------------------------------------------------------------------------------

    def _tell(self, purpose: TellClaim, outcome: Outcome, now: Instant) -> None:
        """Set the condition of each device of a pool in the claim that was read."""
        if not isinstance(outcome, Done):
            self._again[purpose.name] = after(now, REFUSED_AGAIN_S)
            return
        body = self._with_condition(dict(outcome.reply), purpose.condition, now)
        call = Replace(Kind.CLAIMS, purpose.view.namespace, purpose.view.name, body, "status")
        self._worklist.ask(replace(purpose, is_read=True), call)

    def _told(self, purpose: TellClaim, outcome: Outcome, now: Instant) -> None:
        if isinstance(outcome, Refused):
            self._look_again(purpose.name, outcome, now)
            return
        claim = self._claims.get(purpose.name)
        if claim is not None and claim.view == purpose.view:
            claim.told = purpose.condition
        self._changed[purpose.name] = None  # it may be another by now

    def _with_condition(self, raw: JsonObject, condition: str, now: Instant) -> JsonObject:
        status = dict(mapping(raw, "status"))
        devices = [one for one in sequence(status, "devices") if not self._is_of_pool(one)]
        at = rfc3339(now)
        said: JsonObject = {
            "type": condition, "status": "True", "reason": _REASONS[condition], "message": _MESSAGES[condition],
            "lastTransitionTime": at,
        }  # fmt: skip
        for result in objects(status, "allocation", "devices", "results"):
            if self._is_of_pool(result):
                named = {key: text(result, key) for key in ("driver", "pool", "device")}
                devices.append({**named, "conditions": [said]})
        return {**raw, "status": {**status, "devices": devices}}

    def _is_of_pool(self, device: object) -> bool:
        return text(device, "driver") == self.policy.driver and text(device, "pool") in self._pools


def _condition(request: Request | None) -> str:
    """Return the condition of a claim; "" while unknown."""
    if request is None or request.asked_by != CLAIMS:
        return ""
    if request.phase is RequestPhase.RUNNING:
        return RESCHEDULE
    return FAILED if request.phase in OVER and not request.going else ""


def _device(name: str, model: str) -> JsonObject:
    """Return one device of a pool: a count without identity, as CoHDI's driver publishes it."""
    attributes = {"productName": {"string": model}, "type": {"string": "gpu"}, "uuid": {"string": ""}}
    return {
        "name": name,
        "attributes": attributes,
        "bindsToNode": True,
        "bindingConditions": [READY],
        "bindingFailureConditions": [RESCHEDULE, FAILED],
    }


def _shown(raw: JsonObject) -> tuple[object, ...]:
    """Return the fields of a slice that Muster owns, except its generation."""
    spec = mapping(raw, "spec")
    names = tuple(
        (text(one, "name"), text(one, "attributes", "productName", "string")) for one in objects(spec, "devices")
    )
    return text(spec, "driver"), mapping(spec, "nodeSelector"), names


_REASONS = {RESCHEDULE: "Attached", FAILED: "NotAttached"}
_MESSAGES = {
    RESCHEDULE: "the device is on the node, which publishes it: allocate it there",
    FAILED: "the fabric did not attach a device to this node",
}
