"""What pods of the agent need beside themselves: the Service of their gang, and the claim of their devices.

A claim goes through four steps, each a call that is safe to repeat: made with its finalizer (or, where another made it,
given one), read, allocated and reserved at the version that was read, and seen to stand alone (`holders`). Only then
the pod may be bound. A step that is refused for good takes the gang back to the queue.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Protocol

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes import claims, words
from muster.agent.core.kubernetes.calls import Create, Delete, Done, Kind, Merge, Outcome, Read, Refused, Replace
from muster.agent.core.kubernetes.claims import ClaimView
from muster.agent.core.kubernetes.companions import Watcher
from muster.agent.core.kubernetes.holders import Holders, Key
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.slices import DeviceIndex, Place
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant, after
from muster.kube.objects import JsonObject, text, uid_of
from muster.schemas.job import Slot

TRIES_MAX = 8
"""Of making or writing one claim against what others do to it at the same time."""
AGAIN_S = 0.5
"""Before a name is asked for again that a claim still has which is being deleted."""
_NOT_FOUND, _CONFLICT = 404, 409


class DeviceNames(Protocol):
    """What the log calls the devices of nodes."""

    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:
        """Of the devices at these places of a node; fewer if it has not all of them."""
        ...


class NoNames:
    """Implements `DeviceNames` until there is who knows them."""

    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:  # noqa: ARG002 - the port
        """See `DeviceNames`."""
        return ()


class OwnPods(Protocol):
    """Which attempts have pods that Muster did not make."""

    def makes_own_pods(self, order: CreatePods) -> bool:
        """Whether the job's object makes its pods, and with them their claims, itself."""
        ...


class _Step(Enum):
    WORKING = auto()  # a call is asked for
    ABSENT = auto()  # somebody else is to make the claim
    WRITTEN = auto()  # until the watch shows it
    READY = auto()
    OVER = auto()


@dataclass(slots=True, eq=False)
class _Need:
    """A claim that a pod needs. claim: "" while it is not known how another calls it."""

    key: PodKey
    node: str
    namespace: str
    claim: str
    pod: tuple[str, str]
    places: tuple[Place, ...]
    is_guest: bool
    step: _Step = _Step.WORKING
    tries: int = 0
    uid: str = ""  # of the claim, once it is known
    version: int = 0  # of our own write
    is_released: bool = False
    slot: Slot | None = None

    @property
    def at(self) -> Key:
        return self.namespace, self.claim

    @property
    def work(self) -> tuple[str, PodKey, str]:
        """Key of its calls. A pod that comes anew under the same name has calls of its own."""
        return "claim", self.key, self.pod[1]


@dataclass(slots=True)
class Counts:
    """Since the start. conflicts: another claim held a device that was placed. unserved: services that were refused."""

    conflicts: int = 0
    unserved: int = 0
    last: str = ""


@dataclass(slots=True, eq=False)
class PodNeeds:
    """Implements `companions.Companions`. index, holders: fed by whoever watches. names: of devices, by the log."""

    worklist: Worklist
    orders: PodOrders
    own_pods: OwnPods
    index: DeviceIndex
    names: DeviceNames = field(default_factory=NoNames)
    holders: Holders = field(default_factory=Holders)
    counts: Counts = field(default_factory=Counts)
    _watcher: Watcher | None = None
    _needs: dict[PodKey, _Need] = field(default_factory=dict)
    _by_claim: dict[Key, PodKey] = field(default_factory=dict)
    _by_pod: dict[str, PodKey] = field(default_factory=dict)
    _leaving: dict[Key, None] = field(default_factory=dict)

    def watched_by(self, watcher: Watcher) -> None:
        """See `Companions`."""
        self._watcher = watcher

    def begin(self, order: CreatePods, now: Instant) -> None:
        """See `Companions`: nothing is due yet, for a Service is to have an owner, with which it goes."""

    def _serve(self, order: CreatePods, slot: Slot, pod: tuple[str, str]) -> None:
        """Made once the first pod exists, which owns it; of a gang that may lose that pod and go on, nobody does."""
        if self.own_pods.makes_own_pods(order) or not self.orders.is_first(order, slot):
            return
        service = self.orders.service(order, owner=pod)
        if service is not None:
            name = words.attempt_name(order.job_id, order.attempt)
            call = Create(Kind.SERVICES, self.orders.namespace(order), name, service)
            self.worklist.ask(("service", order.job_id, order.attempt), call, self._served)

    def end(self, order: CreatePods, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Companions`."""
        if self.own_pods.makes_own_pods(order) or self.orders.service(order) is None:
            return
        self.worklist.cancel(("service", order.job_id, order.attempt))
        name = words.attempt_name(order.job_id, order.attempt)
        call = Delete(Kind.SERVICES, self.orders.namespace(order), name)
        self.worklist.ask(("service-end", order.job_id, order.attempt), call, self._unserved)

    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:
        """See `Companions`."""
        self._serve(order, slot, (name, uid))
        if not self.orders.is_claimed(order, slot):
            return True
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica)
        need = self._needs.get(key)
        if need is not None and need.pod[1] == uid:
            return need.step is _Step.READY
        places, missing = self._places(slot)
        if missing:
            self._tell_refused(key, now, f"{slot.node} has no device {missing} any more")
            return False
        is_guest = self.own_pods.makes_own_pods(order)
        namespace = self.orders.namespace(order)
        need = _Need(key, slot.node, namespace, "", (name, uid), places, is_guest, slot=slot)
        self._needs[key], self._by_pod[uid] = need, key
        if is_guest:
            self._await(need, now)
        else:
            self._name(need, words.claim_name(name))
            self._make(need, self.orders.claim(order, slot, name=name, uid=uid), now)
        return need.step is _Step.READY

    def release(self, order: CreatePods, slot: Slot, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Companions`. A claim that another made goes with its pod, which is not ours to end.

        Of a pod that an earlier leader bound no need is known: its claim is found by its name.
        """
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica)
        need = self._needs.get(key)
        if need is None or need.slot != slot:  # the one that is known is of the pod that comes anew in its place
            self._release_unknown(order, slot, key, but=need)
            return
        del self._needs[key]
        need.step = _Step.OVER
        self._by_pod.pop(need.pod[1], None)
        self._by_claim.pop(need.at, None)
        if need.is_guest or not need.claim:
            return
        need.is_released = True
        self._leaving[need.at] = None
        if self.worklist.cancel(need.work):
            self._delete(need)  # else its outcome does

    def _release_unknown(self, order: CreatePods, slot: Slot, key: PodKey, *, but: _Need | None) -> None:
        if self.own_pods.makes_own_pods(order) or not self.orders.is_claimed(order, slot):
            return
        at = (self.orders.namespace(order), words.claim_name(pod_name(key)))
        view = self.holders.claims.get(at)
        if view is not None and view.job and (but is None or view.owner != but.pod[1]):
            self._drop(view, key)

    def _drop(self, view: ClaimView, key: PodKey) -> None:
        """Take back a claim of ours of which no need is known."""
        need = _Need(key, view.node, view.namespace, view.name, ("", view.owner), view.places, is_guest=False)
        need.step, need.uid, need.is_released = _Step.OVER, view.uid, True
        self._leaving[need.at] = None
        self._delete(need)

    def clear(self) -> None:
        """See `Companions`."""
        for index in (self._needs, self._by_claim, self._by_pod, self._leaving):
            index.clear()

    def claim_seen(self, view: ClaimView, now: Instant) -> None:
        """A claim is so: told in the order of the watch. What we wrote may have been taken back by somebody else."""
        self.holders.put(view)
        need = self._needs.get(self._by_claim.get(view.key) or self._by_pod.get(view.owner) or _NOBODY)
        if need is None:
            return
        if need.step is _Step.ABSENT and view.owner == need.pod[1]:
            self._await(need, now)
        elif need.step in (_Step.WRITTEN, _Step.READY) and not _is_right(view, need):
            if view.deleting or view.version > need.version:
                self._lose(need, now, f"claim {need.claim} was taken back by somebody else")
        elif need.step is _Step.WRITTEN:
            self._look(need, now)

    def claim_gone(self, key: Key, now: Instant) -> None:
        """A claim is no more."""
        self.holders.remove(key)
        self._leaving.pop(key, None)
        need = self._needs.get(self._by_claim.get(key) or _NOBODY)
        if need is not None and need.step in (_Step.WRITTEN, _Step.READY):
            self._lose(need, now, f"claim {need.claim} was deleted by somebody else")

    def _places(self, slot: Slot) -> tuple[tuple[Place, ...], str]:
        """Where the slot's devices are, or the one that is not there."""
        uuids = self.names.uuids(slot.node, slot.devices)
        if len(uuids) < len(slot.devices):
            return (), f"at one of the places {slot.devices}"
        found = [(uuid, self.index.find(slot.node, uuid)) for uuid in uuids]
        missing = next((uuid for uuid, device in found if device is None), "")
        return tuple(device.place for _, device in found if device is not None), missing

    def _name(self, need: _Need, claim: str) -> None:
        need.claim = claim
        self._by_claim[need.at] = need.key

    def _await(self, need: _Need, now: Instant) -> None:
        """The claim is made for the pod by another: from the template that its object names."""
        made = [view for view in self.holders.of_pod(need.pod[1]) if not view.deleting]
        if made:
            self._name(need, made[0].name)
            self._ask(need, Read(Kind.CLAIMS, *need.at), self._read, now)
        else:
            need.step = _Step.ABSENT

    def _make(self, need: _Need, manifest: JsonObject, now: Instant) -> None:
        known = self.holders.claims.get(need.at)
        if known is not None and _is_right(known, need):
            self._look(need, now)
            return

        self._ask_for(need, manifest, now)

    def _ask_for(self, need: _Need, manifest: JsonObject, now: Instant, *, after_s: float = 0.0) -> None:
        def told(need: _Need, outcome: Outcome, now: Instant) -> None:
            if isinstance(outcome, Refused) and outcome.code == _CONFLICT:
                self._ask(need, Read(Kind.CLAIMS, *need.at), partial(self._read, manifest=manifest), now)
            else:
                self._claim_is(need, outcome, now)

        self._ask(need, Create(Kind.CLAIMS, *need.at, manifest), told, now, after_s=after_s)

    def _read(self, need: _Need, outcome: Outcome, now: Instant, *, manifest: JsonObject | None = None) -> None:
        """The claim as it is. One of a former pod of this name is on its way out: the name is asked for again."""
        is_gone = isinstance(outcome, Refused) and outcome.code == _NOT_FOUND
        if not is_gone and isinstance(outcome, Done):
            view = claims.project_claim(dict(outcome.reply))
            is_gone = view.deleting or view.owner != need.pod[1]
        if is_gone and manifest is not None and need.tries < TRIES_MAX:
            self._ask_for(need, manifest, now, after_s=AGAIN_S)
        elif is_gone:
            self._refuse(need, now, f"claim {need.claim} belongs to another pod, or is gone")
        else:
            self._claim_is(need, outcome, now)

    def _claim_is(self, need: _Need, outcome: Outcome, now: Instant) -> None:
        """The claim at a version: protected first, then allocated, each at exactly this version."""
        if not isinstance(outcome, Done):
            self._refuse(need, now, _words(need, outcome))
            return
        claim = dict(outcome.reply)
        if _is_right(claims.project_claim(claim), need):
            self._written(need, outcome, now)
            return
        protection = claims.protection(claim, wanted=True)
        if protection is not None:
            self._ask(need, Merge(Kind.CLAIMS, *need.at, protection), self._claim_is_or_read, now)
            return
        try:
            body = claims.allocated(claim, node=need.node, pod=need.pod, places=need.places)
        except ValueError as error:
            self._refuse(need, now, str(error))
            return
        self._ask(need, Replace(Kind.CLAIMS, *need.at, body, subresource="status"), self._written, now)

    def _claim_is_or_read(self, need: _Need, outcome: Outcome, now: Instant) -> None:
        if isinstance(outcome, Refused) and outcome.code == _CONFLICT:
            self._ask(need, Read(Kind.CLAIMS, *need.at), self._read, now)
        else:
            self._claim_is(need, outcome, now)

    def _written(self, need: _Need, outcome: Outcome, now: Instant) -> None:
        if isinstance(outcome, Done):
            need.step, need.version = _Step.WRITTEN, claims.project_claim(dict(outcome.reply)).version
            self._look(need, now)
        else:
            self._claim_is_or_read(need, outcome, now)

    def _look(self, need: _Need, now: Instant) -> None:
        """Ready as soon as the watch shows our own write, and with it all that was written before."""
        view = self.holders.claims.get(need.at)
        if view is None or not _is_right(view, need):
            return
        others = [other for other in self.holders.others(need.places, than=need.at) if other.key not in self._leaving]
        if not others:
            need.step = _Step.READY
            if self._watcher is not None:
                self._watcher.is_ready(need.key, now)
        elif others[0].job and others[0].key not in self._by_claim:
            self._examine(need, others[0])
        else:
            self._conflict(need, others[0], now)

    def _examine(self, need: _Need, other: ClaimView) -> None:
        """A claim of ours that nobody here knows: of a pod that an earlier leader made. Is that pod over?"""
        pod = words.pod_of_claim(other.name)

        def told(outcome: Outcome, now: Instant) -> None:
            if need.step is not _Step.WRITTEN:
                return
            if _is_over(outcome, other.owner):
                self._drop(other, PodKey(other.job, 0, 0, 0))
                self._look(need, now)
            else:
                self._conflict(need, other, now)

        self.worklist.ask(
            ("claim-pod", need.key, other.uid), Read(Kind.PODS, other.namespace, pod), told, is_urgent=True
        )

    def _conflict(self, need: _Need, other: ClaimView, now: Instant) -> None:
        self.counts.conflicts += 1
        self._refuse(need, now, f"claim {other.namespace}/{other.name} holds a device that was placed")

    def _refuse(self, need: _Need, now: Instant, reason: str) -> None:
        """The gang cannot have it: what was allocated is given back at once, for whoever else looks."""
        need.step = _Step.OVER
        view = self.holders.claims.get(need.at)
        if view is not None and view.places and need.pod[1] in view.reserved:
            self._deallocate(need, now)
        self._tell_refused(need.key, now, reason)

    def _lose(self, need: _Need, now: Instant, reason: str) -> None:
        """Somebody else took it. A pod that is bound runs on: whoever watches knows which are."""
        if need.step is _Step.WRITTEN:
            need.step = _Step.OVER
        self._tell_refused(need.key, now, reason)

    def _tell_refused(self, key: PodKey, now: Instant, reason: str) -> None:
        self.counts.last = reason
        if self._watcher is not None:
            self._watcher.is_refused(key, now, reason=reason)

    def _deallocate(self, need: _Need, now: Instant) -> None:
        def told(need: _Need, outcome: Outcome, now: Instant) -> None:
            if isinstance(outcome, Done):
                body = claims.deallocated(dict(outcome.reply))
                self._ask(need, Replace(Kind.CLAIMS, *need.at, body, subresource="status"), self._given_back, now)

        self._ask(need, Read(Kind.CLAIMS, *need.at), told, now)

    def _given_back(self, need: _Need, outcome: Outcome, now: Instant) -> None:
        if isinstance(outcome, Refused) and outcome.code == _CONFLICT and need.tries < TRIES_MAX:
            self._deallocate(need, now)

    def _delete(self, need: _Need) -> None:
        """A claim of unknown uid was never made, or not by this life: the garbage collector takes it with its pod."""
        known = self.holders.claims.get(need.at)
        uid = need.uid or (known.uid if known is not None and known.owner == need.pod[1] else "")
        if not uid:
            self._leaving.pop(need.at, None)
            return
        call = Delete(Kind.CLAIMS, *need.at, uid=uid)
        self.worklist.ask(need.work, call, lambda outcome, _: self._deleted(need, outcome), is_urgent=True)

    def _deleted(self, need: _Need, outcome: Outcome) -> None:
        """It goes once the finalizer is taken away: nobody else has to notice first."""
        reply = dict(outcome.reply) if isinstance(outcome, Done) else {}
        patch = claims.protection(reply, wanted=False) if uid_of(reply) else None
        if patch is None:
            self._leaving.pop(need.at, None)
            return
        call = Merge(Kind.CLAIMS, *need.at, patch)
        self.worklist.ask(need.work, call, lambda *_: self._leaving.pop(need.at, None), is_urgent=True)

    def _ask(
        self,
        need: _Need,
        call: Create | Read | Merge | Replace,
        told: Callable[[_Need, Outcome, Instant], None],
        now: Instant,
        *,
        after_s: float = 0.0,
    ) -> None:
        """One call at a time per claim. What a pod was released from in the meantime is deleted instead."""
        need.tries += 1
        if need.tries > TRIES_MAX:
            self._refuse_tired(need, now)
            return

        def then(outcome: Outcome, now: Instant) -> None:
            if isinstance(outcome, Done) and claims.project_claim(dict(outcome.reply)).owner == need.pod[1]:
                need.uid = uid_of(outcome.reply)
            if need.is_released:
                self._delete(need)
            else:
                told(need, outcome, now)

        at = after(now, after_s) if after_s else Instant(0)
        self.worklist.ask(need.work, call, then, at=at, is_urgent=True)  # before more is begun

    def _refuse_tired(self, need: _Need, now: Instant) -> None:
        if need.step is not _Step.OVER:
            need.step = _Step.OVER
            self._tell_refused(need.key, now, f"claim {need.claim} changed {TRIES_MAX} times under our hands")

    def _served(self, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - told like all others
        if isinstance(outcome, Refused) and outcome.code != _CONFLICT:
            self.counts.unserved += 1
            self.counts.last = outcome.message

    def _unserved(self, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - told like all others
        if isinstance(outcome, Refused) and outcome.code != _NOT_FOUND:
            self.counts.last = outcome.message


_NOBODY = PodKey("", 0, 0, 0)


def _is_right(view: ClaimView, need: _Need) -> bool:
    """Whether the claim gives this pod exactly its devices."""
    uid = need.pod[1]
    return uid in view.reserved and set(view.places) == set(need.places) and not view.deleting and view.owner == uid


def _is_over(outcome: Outcome, uid: str) -> bool:
    """Whether the pod of this uid, as it was read, runs no more."""
    if isinstance(outcome, Refused):
        return outcome.code == _NOT_FOUND
    pod = dict(outcome.reply) if isinstance(outcome, Done) else {}
    return bool(pod) and (uid_of(pod) != uid or text(pod, "status", "phase") in ("Succeeded", "Failed"))


def _words(need: _Need, outcome: Outcome) -> str:
    said = outcome.message if isinstance(outcome, Refused) else ""
    return f"claim {need.claim}: {said or 'no answer'}"
