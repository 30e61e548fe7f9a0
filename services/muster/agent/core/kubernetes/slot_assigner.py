"""Assign pods to the slots of an attempt, and objects to pods."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from muster.agent.core.cluster import ResizePods
from muster.agent.core.kubernetes.context import AttemptKey, Context
from muster.agent.core.kubernetes.live import AttemptState, LiveAttempt, LivePod, PodState
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.pod_creator import PodCreator
from muster.agent.core.kubernetes.ports import AdoptedPods, Manifests
from muster.agent.core.kubernetes.terminator import Terminator
from muster.agent.core.kubernetes.verdicts import Verdicts
from muster.agent.core.kubernetes.views import NOT_SEEN, PodView
from muster.schemas.job import Slot

_Name = tuple[str, str]
_K = TypeVar("_K")
_T = TypeVar("_T")
_V = TypeVar("_V")


class PodIndex:
    """Finds the pod of an object: Muster's own by name, place and labels, adopted ones by their owner.

    It holds every pod as last seen.
    """

    def __init__(self, attempts: Mapping[AttemptKey, LiveAttempt], manifests: Manifests, adopted: AdoptedPods) -> None:
        self.views: dict[_Name, PodView] = {}
        self._attempts = attempts
        self._manifests = manifests
        self._adopted = adopted
        self._hosts: dict[
            str, dict[AttemptKey, None]
        ] = {}  # attempts that wait for pods of others, by key of their objects
        self._unclaimed: dict[str, dict[_Name, None]] = {}  # pods that no attempt claimed yet, by the same keys
        self._claimed: dict[str, PodKey] = {}  # by uid
        self._adopted_of: dict[AttemptKey, dict[str, _Name]] = {}  # the same by attempt: uids with their names

    def key_of(self, view: PodView) -> PodKey | None:
        """Return the pod of a live attempt; None if there is none.

        Copied pods have copied labels: Muster's own must also have their name and namespace.
        """
        if view.member is None:
            return self._claimed.get(view.uid) or self._claim(view)
        key = view.member.key
        one = self._attempts.get((key.job_id, key.attempt))
        if one is None or key.is_check != self._adopted.makes_own_pods(one.order):
            return None  # where others make the pods, ours are those that check
        order = one.order_of(is_check=key.is_check)
        return key if view.key == (self._manifests.namespace(order), pod_name(key)) else None

    def host(self, one: LiveAttempt) -> list[PodView]:
        """Wait for adopted pods of the attempt; yield those that exist."""
        found: list[PodView] = []
        for key in self._adopted.keys_of_order(one.order):
            self._hosts.setdefault(key, {})[one.key] = None
            found += [self.views[name] for name in self._unclaimed.get(key, ())]
        return found

    def unhost(self, one: LiveAttempt) -> None:
        """Stop waiting for the attempt's pods.

        Finished pods also count for the next attempt: their object counts them, and creates no others. Late pods may
        serve the next attempt, too. Failed ones are created again.
        """
        for key in self._adopted.keys_of_order(one.order):
            _drop(self._hosts, key, one.key)
        for uid, name in self._adopted_of.pop(one.key, {}).items():
            del self._claimed[uid]
            view = self.views.get(name)
            if view is not None and view.uid == uid and (view.end is None or view.end.succeeded):
                self._leave(view)

    def lose(self, view: PodView) -> PodKey | None:
        """Forget a deleted pod; return its place."""
        key = self.key_of(view) if view.member is not None else self._claimed.pop(view.uid, None)
        self.views.pop(view.key, None)
        if key is not None:
            _drop(self._adopted_of, (key.job_id, key.attempt), view.uid)
        self._take(view)
        return key

    def clear(self) -> None:
        """Forget all pods."""
        for held in (self.views, self._unclaimed, self._claimed, self._adopted_of):
            held.clear()

    def _claim(self, view: PodView) -> PodKey | None:
        """Return the pod of an adopted object, for an attempt that waits for it."""
        for key in self._adopted.keys_of_pod(view):
            for name in self._hosts.get(key, ()):
                one = self._attempts[name]
                place = self._adopted.place_of(one.order, view)
                pod = None if place is None else one.pods.get(place)
                if pod is None or pod.exists:
                    pod = self._leaving(one, view)
                if pod is not None:
                    pod.namespace, pod.name = view.namespace, view.name
                    self._claimed[view.uid] = pod.key
                    self._adopted_of.setdefault(one.key, {})[view.uid] = view.key
                    self._take(view)
                    return pod.key
        self._leave(view)
        return None

    def _leaving(self, one: LiveAttempt, view: PodView) -> LivePod | None:
        """Return whether the pod is in use: a terminating pod belongs to an earlier attempt, unless this one ends, too.

        Then a former leader ended it, and another may exist in its place.
        """
        if not one.is_ending or not view.ends_at or view.end is not None:
            return None
        place = self._adopted.place_of(one.order, replace(view, ends_at=NOT_SEEN))
        there = None if place is None else one.pods.get(place)
        if there is None or there.slot.node != view.node:
            return None
        number = one.next_number()
        pod = LivePod(there.key, there.slot, view.namespace, view.name, is_adopted=True, number=number)
        pod.see(view)
        one.leaving.append(pod)
        return pod

    def _leave(self, view: PodView) -> None:
        """Keep an unclaimed pod; a later attempt may claim it."""
        for key in self._adopted.keys_of_pod(view):
            self._unclaimed.setdefault(key, {})[view.key] = None

    def _take(self, view: PodView) -> None:
        """Drop an unclaimed pod."""
        for key in self._adopted.keys_of_pod(view):
            _drop(self._unclaimed, key, view.key)


def _drop(of: dict[_K, dict[_T, _V]], key: _K, one: _T) -> None:
    """Remove an entry, and its group once it is empty."""
    held = of.get(key, {})
    held.pop(one, None)
    if not held:
        of.pop(key, None)


class SlotAssigner:
    """Keeps `LiveAttempt.pods` and `leaving` as requested and seen."""

    def __init__(
        self,
        attempts: Mapping[AttemptKey, LiveAttempt],
        context: Context,
        verdicts: Verdicts,
        creator: PodCreator,
        terminator: Terminator,
    ) -> None:
        self._attempts = attempts
        self._context = context
        self._index = PodIndex(attempts, context.manifests, context.adopted)
        self._verdicts = verdicts
        self._creator = creator
        self._terminator = terminator

    def see(self, view: PodView) -> bool:
        """Handle a new state of a pod. False if it belongs to no attempt."""
        self._index.views[view.key] = view
        key = self._index.key_of(view)
        one = None if key is None else self._attempts.get((key.job_id, key.attempt))
        pod = None if one is None or key is None else self._pod_of(one, key, view)
        if one is None or pod is None:
            return False
        pod.see(view)
        one.checkpoint = max(one.checkpoint, view.checkpointed_at)
        self._context.due.mark(one.key)
        return True

    def lose(self, view: PodView) -> None:
        """Handle a deleted pod, given its last state."""
        key = self._index.lose(view)
        one = None if key is None else self._attempts.get((key.job_id, key.attempt))
        if one is None or key is None:
            return
        there = one.pods.get((key.group, key.replica))
        for pod in (*one.leaving, *((there,) if there is not None else ())):
            if pod.uid == view.uid:
                pod.lose()
                self._context.due.mark(one.key)
                return

    def clear(self) -> None:
        """Forget all pods."""
        self._index.clear()

    def host(self, one: LiveAttempt) -> None:
        """Claim the existing and coming adopted pods of an attempt."""
        if self._context.adopted.makes_own_pods(one.order):
            for view in self._index.host(one):
                self.see(view)

    def unhost(self, one: LiveAttempt) -> None:
        """Release the pods of an attempt that is over."""
        self._index.unhost(one)

    def fill(self, one: LiveAttempt) -> None:
        """Add a pod for each slot of a new attempt. Places of adopted pods may be checked before."""
        is_adopted = self._context.adopted.makes_own_pods(one.order)
        has_plan = one.order.preflight is not None
        one.checks_apart = one.is_checking = has_plan and is_adopted and self._context.manifests.makes_check_pods
        for slot in one.order.slots:
            self._add_pod(one, slot)
        if not one.is_checking:
            self.host(one)

    def empty(self, one: LiveAttempt) -> None:
        """Forget the pods of an attempt."""
        one.leaving.clear()
        was_checking, one.is_checking = one.is_checking, one.checks_apart and not one.opened_at
        one.pods = {place: self._new_pod(one, pod.slot, is_late=pod.is_late) for place, pod in one.pods.items()}
        if was_checking and not one.is_checking:
            self.host(one)

    def checked(self, one: LiveAttempt) -> None:
        """End the check pods, and wait for the adopted pods."""
        one.is_checking = False
        one.leaving += [pod for pod in one.pods.values() if pod.state is not PodState.GONE]
        for slot in one.order.slots:
            self._add_pod(one, slot)
        self.host(one)

    def resize(self, one: LiveAttempt, wanted: ResizePods) -> None:
        """Resize: unmoved pods stay; a moved one ends and is created again."""
        places = {(slot.group, slot.replica): slot for slot in wanted.slots}
        for place, pod in tuple(one.pods.items()):
            if places.get(place) != pod.slot:
                one.leaving.append(one.pods.pop(place))
        one.order = replace(one.order, slots=wanted.slots)
        for place, slot in places.items():
            if place not in one.pods:
                self._add_pod(one, slot, is_late=True)
        one.resize, one.resized = wanted, False

    def _pod_of(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """Return the pod of an object, by uid; an unknown uid belongs to the place, or is leaving."""
        if key.is_check and not one.is_checking:
            return self._checked(one, key, view)
        pod = next((other for other in one.leaving if other.uid == view.uid), one.pods.get((key.group, key.replica)))
        if pod is None:
            return self._orphan(one, key, view)
        if pod.uid == view.uid:
            return pod
        if one.state is AttemptState.ENDED or pod.end is not None:
            return None  # created too late, by an old call: no attempt waits for it
        if not pod.uid:
            moves = one.resize is not None and view.node not in ("", pod.slot.node)
            return self._orphan(one, key, view) if moves else pod
        return self._anew(one, pod)

    def _new_pod(self, one: LiveAttempt, slot: Slot, *, is_late: bool) -> LivePod:
        order = one.working_order
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica, is_check=one.is_checking)
        namespace = self._context.manifests.namespace(order)
        pod = LivePod(key, slot, namespace, pod_name(key), number=one.next_number())
        pod.is_adopted, pod.is_late = self._context.adopted.makes_own_pods(order), is_late
        return pod

    def _checked(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """Add a check pod of an attempt whose checks are over: it leaves."""
        known = (pod for pod in one.leaving if pod.key == key and pod.uid in ("", view.uid))
        return next(known, None) or self._orphan(one, key, view)

    def _add_pod(self, one: LiveAttempt, slot: Slot, *, is_late: bool = False) -> None:
        """Add a wanted pod; an object of its name may exist from an earlier leader, unless that one leaves."""
        pod = one.pods[slot.group, slot.replica] = self._new_pod(one, slot, is_late=is_late)
        known = self._index.views.get((pod.namespace, pod.name))
        is_leaving = known is not None and any(known.uid == other.uid for other in one.leaving)
        if known is not None and known.member is not None and known.member.key == pod.key and not is_leaving:
            pod.see(known)

    def _orphan(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """Add a pod that a resize ends, which a former leader began."""
        if one.state is AttemptState.ENDED or view.member is None:
            return None
        slot = Slot(group=key.group, replica=key.replica, node=view.node)
        pod = LivePod(key, slot, view.namespace, view.name, number=one.next_number())
        one.leaving.append(pod)
        return pod

    def _anew(self, one: LiveAttempt, old: LivePod) -> LivePod:
        """Replace the object of a pod: the old one is gone, and its calls are obsolete."""
        was_running = bool(one.started_at or one.running_at or old.has_run)
        self._creator.forget(old)
        self._terminator.forget(old)
        pod = self._new_pod(one, old.slot, is_late=old.is_late)
        pod.namespace, pod.name = old.namespace, old.name
        one.pods[old.key.group, old.key.replica] = pod
        if was_running and not old.is_late:
            self._verdicts.roll_back(one, old, reason="it was taken away, and another made under its name")
        return pod
