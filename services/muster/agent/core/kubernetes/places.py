"""Which pods an attempt is to have, and which object is which of them."""

from dataclasses import replace

from muster.agent.core.cluster import ResizePods
from muster.agent.core.kubernetes.belonging import Belonging
from muster.agent.core.kubernetes.ending import Ender
from muster.agent.core.kubernetes.live import AttemptState, LiveAttempt, LivePod, PodState
from muster.agent.core.kubernetes.making import Maker
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.parts import Parts
from muster.agent.core.kubernetes.verdicts import Verdicts
from muster.agent.core.kubernetes.views import PodView
from muster.schemas.job import Slot


class Places:
    """Keeps `LiveAttempt.pods` and `leaving` as was asked and seen."""

    def __init__(self, parts: Parts, belonging: Belonging, verdicts: Verdicts, maker: Maker, ender: Ender) -> None:
        self._parts = parts
        self._belonging = belonging
        self._verdicts = verdicts
        self._maker = maker
        self._ender = ender

    def fill(self, one: LiveAttempt) -> None:
        """A pod for each slot of an attempt that begins. Of pods that others make the places may be checked before."""
        is_guest = self._parts.guests.makes_own_pods(one.order)
        has_plan = one.order.preflight is not None
        one.checks_apart = one.is_checking = has_plan and is_guest and self._parts.manifests.makes_check_pods
        for slot in one.order.slots:
            self._add_pod(one, slot)

    def empty(self, one: LiveAttempt) -> None:
        """Nothing is known of its pods any more."""
        one.leaving.clear()
        one.is_checking = one.checks_apart and not one.opened_at
        one.pods = {place: self._new_pod(one, pod.slot, is_late=pod.is_late) for place, pod in one.pods.items()}

    def checked(self, one: LiveAttempt) -> None:
        """The pods that checked leave, as far as they are there, and those that others make are waited for."""
        one.is_checking = False
        one.leaving += [pod for pod in one.pods.values() if pod.state is not PodState.GONE]
        for slot in one.order.slots:
            self._add_pod(one, slot)

    def resize(self, one: LiveAttempt, wanted: ResizePods) -> None:
        """Pods that stay where they are stay; one that moves ends and comes anew."""
        places = {(slot.group, slot.replica): slot for slot in wanted.slots}
        for place, pod in tuple(one.pods.items()):
            if places.get(place) != pod.slot:
                one.leaving.append(one.pods.pop(place))
        one.order = replace(one.order, slots=wanted.slots)
        for place, slot in places.items():
            if place not in one.pods:
                self._add_pod(one, slot, is_late=True)
        one.resize, one.resized = wanted, False

    def pod_of(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """Whose object this is: by its uid; one that is known under no uid is that of the place, or leaves it."""
        if key.is_check and not one.is_checking:
            return self._checked(one, key, view)
        pod = next((other for other in one.leaving if other.uid == view.uid), one.pods.get((key.group, key.replica)))
        if pod is None:
            return self._stray(one, key, view)
        if pod.uid == view.uid:
            return pod
        if one.state is AttemptState.ENDED or pod.end is not None:
            return None  # made too late, by a call of old: nobody waits for it
        if not pod.uid:
            moves = one.resize is not None and view.node not in ("", pod.slot.node)
            return self._stray(one, key, view) if moves else pod
        return self._anew(one, pod)

    def _new_pod(self, one: LiveAttempt, slot: Slot, *, is_late: bool) -> LivePod:
        order = one.working_order
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica, is_check=one.is_checking)
        namespace = self._parts.manifests.namespace(order)
        pod = LivePod(key, slot, namespace, pod_name(key), number=one.next_number())
        pod.is_guest, pod.is_late = self._parts.guests.makes_own_pods(order), is_late
        return pod

    def _checked(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """A pod that checked, of an attempt whose checks are over: it leaves, whoever made it."""
        known = (pod for pod in one.leaving if pod.key == key and pod.uid in ("", view.uid))
        return next(known, None) or self._stray(one, key, view)

    def _add_pod(self, one: LiveAttempt, slot: Slot, *, is_late: bool = False) -> None:
        """A pod that is wanted. An object of its name may be there: an earlier leader's, but not one that leaves."""
        pod = one.pods[slot.group, slot.replica] = self._new_pod(one, slot, is_late=is_late)
        known = self._belonging.views.get((pod.namespace, pod.name))
        is_leaving = known is not None and any(known.uid == other.uid for other in one.leaving)
        if known is not None and known.member is not None and known.member.key == pod.key and not is_leaving:
            pod.see(known)

    def _stray(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """A pod that a resize ends, which was asked of a former leader."""
        if one.state is AttemptState.ENDED or view.member is None:
            return None
        slot = Slot(group=key.group, replica=key.replica, node=view.node)
        pod = LivePod(key, slot, view.namespace, view.name, number=one.next_number())
        one.leaving.append(pod)
        return pod

    def _anew(self, one: LiveAttempt, old: LivePod) -> LivePod:
        """The object under this name is another one now: the old pod is gone, and what was done to it is undone."""
        was_running = bool(one.started_at or one.running_at or old.has_run)
        self._maker.forget(old)
        self._ender.forget(old)
        pod = self._new_pod(one, old.slot, is_late=old.is_late)
        pod.namespace, pod.name = old.namespace, old.name
        one.pods[old.key.group, old.key.replica] = pod
        if was_running and not old.is_late:
            self._verdicts.roll_back(one, old, reason="it was taken away, and another made under its name")
        return pod
