"""Which object is which pod of which attempt: Muster's own by name, place and labels, others' by what made them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from muster.agent.core.kubernetes.companions import Guests, Manifests
from muster.agent.core.kubernetes.live import LiveAttempt, LivePod
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.views import NOT_SEEN, PodView

_Key = tuple[str, int]
_Name = tuple[str, str]
_K = TypeVar("_K")
_T = TypeVar("_T")
_V = TypeVar("_V")


class Belonging:
    """attempts: all that live. Holds every pod as it was last seen."""

    def __init__(self, attempts: Mapping[_Key, LiveAttempt], manifests: Manifests, guests: Guests) -> None:
        self.views: dict[_Name, PodView] = {}
        self._attempts = attempts
        self._manifests = manifests
        self._guests = guests
        self._hosts: dict[str, dict[_Key, None]] = {}  # attempts that wait for pods of others, by key of their objects
        self._strangers: dict[str, dict[_Name, None]] = {}  # pods that nobody claimed yet, by the same keys
        self._claimed: dict[str, PodKey] = {}  # by uid
        self._guests_of: dict[_Key, dict[str, _Name]] = {}  # the same by attempt: uids with their names

    def key_of(self, view: PodView) -> PodKey | None:
        """Which pod it is; None if it is of no attempt that lives.

        Labels are copied by whoever copies a pod: Muster's own has its name and is in its namespace, too.
        """
        if view.member is None:
            return self._claimed.get(view.uid) or self._claim(view)
        key = view.member.key
        one = self._attempts.get((key.job_id, key.attempt))
        if one is None or key.is_check != self._guests.makes_own_pods(one.order):
            return None  # where others make the pods, ours are those that check
        order = one.order_of(is_check=key.is_check)
        return key if view.key == (self._manifests.namespace(order), pod_name(key)) else None

    def host(self, one: LiveAttempt) -> list[PodView]:
        """The attempt waits for pods of others. Those that are there already."""
        found: list[PodView] = []
        for key in self._guests.keys_of_order(one.order):
            self._hosts.setdefault(key, {})[one.key] = None
            found += [self.views[name] for name in self._strangers.get(key, ())]
        return found

    def unhost(self, one: LiveAttempt) -> None:
        """It waits no longer, and its pods are nobody's.

        Those that are done are so for the attempt after it, too: their object counts them, and makes no others. Those
        that came too late for this one may be in time for that. Failed ones are made anew.
        """
        for key in self._guests.keys_of_order(one.order):
            _drop(self._hosts, key, one.key)
        for uid, name in self._guests_of.pop(one.key, {}).items():
            del self._claimed[uid]
            view = self.views.get(name)
            if view is not None and view.uid == uid and (view.end is None or view.end.succeeded):
                self._leave(view)

    def lose(self, view: PodView) -> PodKey | None:
        """The pod is no more. Which it was."""
        key = self.key_of(view) if view.member is not None else self._claimed.pop(view.uid, None)
        self.views.pop(view.key, None)
        if key is not None:
            _drop(self._guests_of, (key.job_id, key.attempt), view.uid)
        self._take(view)
        return key

    def clear(self) -> None:
        """Nothing is known of pods any more."""
        for held in (self.views, self._strangers, self._claimed, self._guests_of):
            held.clear()

    def _claim(self, view: PodView) -> PodKey | None:
        """A pod that another made, for an attempt that waits for it."""
        for key in self._guests.keys_of_pod(view):
            for name in self._hosts.get(key, ()):
                one = self._attempts[name]
                place = self._guests.place_of(one.order, view)
                pod = None if place is None else one.pods.get(place)
                if pod is None or pod.exists:
                    pod = self._leaving(one, view)
                if pod is not None:
                    pod.namespace, pod.name = view.namespace, view.name
                    self._claimed[view.uid] = pod.key
                    self._guests_of.setdefault(one.key, {})[view.uid] = view.key
                    self._take(view)
                    return pod.key
        self._leave(view)
        return None

    def _leaving(self, one: LiveAttempt, view: PodView) -> LivePod | None:
        """A pod that leaves is of an attempt before, unless this one ends, too, and has a place on its node.

        Then a former leader told it to, and another may have been made in its place meanwhile.
        """
        if not one.is_ending or not view.ends_at or view.end is not None:
            return None
        place = self._guests.place_of(one.order, replace(view, ends_at=NOT_SEEN))
        there = None if place is None else one.pods.get(place)
        if there is None or there.slot.node != view.node:
            return None
        number = one.next_number()
        pod = LivePod(there.key, there.slot, view.namespace, view.name, is_guest=True, number=number)
        pod.see(view)
        one.leaving.append(pod)
        return pod

    def _leave(self, view: PodView) -> None:
        """Nobody claims it; an attempt that comes may."""
        for key in self._guests.keys_of_pod(view):
            self._strangers.setdefault(key, {})[view.key] = None

    def _take(self, view: PodView) -> None:
        """No attempt that comes may."""
        for key in self._guests.keys_of_pod(view):
            _drop(self._strangers, key, view.key)


def _drop(of: dict[_K, dict[_T, _V]], key: _K, one: _T) -> None:
    """Without leaving an empty one behind."""
    held = of.get(key, {})
    held.pop(one, None)
    if not held:
        of.pop(key, None)
