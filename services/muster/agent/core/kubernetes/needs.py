"""Auxiliary objects of the agent's pods: the Service of their gang, and the claim of their devices.

A Service needs an owner, with which it is deleted: it is created after the first pod.
"""

from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.calls import CONFLICT, NOT_FOUND, Create, Delete, Kind, Outcome, Refused
from muster.agent.core.kubernetes.claim_steps import ClaimSteps, Counts, Need, Step
from muster.agent.core.kubernetes.claims import ClaimView, Holders, Key
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.ports import AdoptedPods, AuxiliaryObjects, Watcher
from muster.agent.core.kubernetes.slices import DeviceIndex, Place
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Instant
from muster.schemas.job import Slot

_NOBODY = PodKey("", 0, 0, 0)


class DeviceNames(Protocol):
    """The log's names of devices."""

    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:
        """Return the uuids of devices by index; fewer if some are absent."""
        ...


class PodNeeds(AuxiliaryObjects):
    """Auxiliary objects of pods; watches feed `index` and `holders`, the log `names`."""

    def __init__(
        self,
        worklist: Worklist,
        orders: PodOrders,
        own_pods: AdoptedPods,
        index: DeviceIndex,
        names: DeviceNames | None = None,
        *,
        holders: Holders | None = None,
    ) -> None:
        self.orders = orders
        self.index = index
        self.names = names
        self.holders = Holders() if holders is None else holders
        self.counts = Counts()
        self._own_pods = own_pods
        self._steps = ClaimSteps(worklist, self.holders, self.counts)
        self._services = GangServices(worklist, orders, self.counts)
        self._needs: dict[PodKey, Need] = {}
        self._by_pod: dict[str, PodKey] = {}

    @override
    def watched_by(self, watcher: Watcher) -> None:
        self._steps.watcher = watcher

    @override
    def end(self, order: CreatePods, now: Instant) -> None:
        if not self._own_pods.makes_own_pods(order):
            self._services.end(order)

    @override
    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:
        is_adopted = self._own_pods.makes_own_pods(order)
        if not is_adopted:
            self._services.serve(order, slot, (name, uid))
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica)
        if not self.orders.is_claimed(order, slot):
            if (
                is_adopted and self.index.nodes and order.spec.task_groups[slot.group].gpus
            ):  # nodes with claims exist here
                reason = f"GPUs of {slot.node} are not allocated by claims, but its pod has one"
                self._steps.refused(key, now, reason, uid=uid)
                return False
            return True
        need = self._needs.get(key)
        if need is not None and need.pod[1] == uid:
            return need.step is Step.READY
        places, missing = self._places(slot)
        if missing:
            self._steps.refused(key, now, f"{slot.node} no longer has device {missing}", uid=uid)
            return False
        need = Need(key, slot.node, self.orders.namespace(order), "", (name, uid), places, is_adopted, slot=slot)
        need.labels = self.orders.claim_labels(order) if is_adopted else {}
        self._needs[key], self._by_pod[uid] = need, key
        if is_adopted:
            self._steps.wait(need, now)
        else:
            self._steps.name(need, names.claim_name(name))
            self._steps.make(need, self.orders.claim(order, slot, name=name, uid=uid), now)
        return need.step is Step.READY

    @override
    def release(self, order: CreatePods, slot: Slot, now: Instant) -> None:
        """Release the claim of a pod. A claim of another controller is deleted with its pod.

        The claim of a pod that an earlier leader bound is found by its name.
        """
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica)
        need = self._needs.get(key)
        if need is None or need.slot != slot:  # the known need is that of its successor
            self._release_unknown(order, slot, key, but=need)
            return
        del self._needs[key]
        self._by_pod.pop(need.pod[1], None)
        self._steps.release(need)

    @override
    def clear(self) -> None:
        self._needs.clear()
        self._by_pod.clear()
        self._steps.clear()

    def claim_seen(self, view: ClaimView, now: Instant) -> None:
        """Handle a new state of a claim, in watch order."""
        self.holders.put(view)
        need = self._needs.get(self._steps.known.get(view.key) or self._by_pod.get(view.owner) or _NOBODY)
        if need is not None:
            self._steps.seen(need, view, now)

    def claim_gone(self, key: Key, now: Instant) -> None:
        """Handle a deleted claim."""
        self.holders.remove(key)
        self._steps.leaving.pop(key, None)
        need = self._needs.get(self._steps.known.get(key) or _NOBODY)
        if need is not None:
            self._steps.gone(need, now)

    def _release_unknown(self, order: CreatePods, slot: Slot, key: PodKey, *, but: Need | None) -> None:
        if self._own_pods.makes_own_pods(order) or not self.orders.is_claimed(order, slot):
            return
        at = (self.orders.namespace(order), names.claim_name(pod_name(key)))
        view = self.holders.claims.get(at)
        if view is not None and view.job and (but is None or view.owner != but.pod[1]):
            self._steps.drop(view, key)

    def _places(self, slot: Slot) -> tuple[tuple[Place, ...], str]:
        """Return the places of the slot's devices, or a missing device."""
        uuids = () if self.names is None else self.names.uuids(slot.node, slot.devices)
        if len(uuids) < len(slot.devices):
            return (), f"at one of the places {slot.devices}"
        found = [(uuid, self.index.find(slot.node, uuid)) for uuid in uuids]
        missing = next((uuid for uuid, device in found if device is None), "")
        return tuple(device.place for _, device in found if device is not None), missing


@dataclass(frozen=True, slots=True)
class ChangeService(Purpose):
    """Create or delete an attempt's Service."""

    job_id: str
    attempt: int
    is_wanted: bool


@dataclass(slots=True, eq=False)
class GangServices:
    """Services of gangs. If one is refused, a gang that needs no names runs without it."""

    worklist: Worklist
    orders: PodOrders
    counts: Counts

    def __post_init__(self) -> None:
        self.worklist.serve(self, ChangeService)

    def serve(self, order: CreatePods, slot: Slot, pod: tuple[str, str]) -> None:
        """Create the Service once the first pod exists, which owns it; that of an elastic gang has no owner.

        `pod` is name and uid of the slot's pod.
        """
        service = self.orders.service(order, owner=pod) if self.orders.is_first(order, slot) else None
        if service is not None:
            name = names.attempt_name(order.job_id, order.attempt)
            call = Create(Kind.SERVICES, self.orders.namespace(order), name, service)
            self.worklist.ask(ChangeService(order.job_id, order.attempt, is_wanted=True), call)

    def end(self, order: CreatePods) -> None:
        """Delete the Service once no pod is left."""
        if self.orders.service(order) is None:
            return
        self.worklist.cancel(ChangeService(order.job_id, order.attempt, is_wanted=True))
        name = names.attempt_name(order.job_id, order.attempt)
        call = Delete(Kind.SERVICES, self.orders.namespace(order), name)
        self.worklist.ask(ChangeService(order.job_id, order.attempt, is_wanted=False), call)

    def answered(self, purpose: ChangeService, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count a Service that was refused."""
        if isinstance(outcome, Refused) and outcome.code != (CONFLICT if purpose.is_wanted else NOT_FOUND):
            self.counts.unserved += purpose.is_wanted
            self.counts.last = outcome.message
