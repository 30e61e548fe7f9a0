"""Which object is which pod of which attempt: Muster's own by name, place and labels, others' by what made them."""

from collections.abc import Mapping
from typing import TypeVar

from muster.agent.core.kubernetes.companions import Guests, Manifests
from muster.agent.core.kubernetes.live import LiveAttempt
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.views import PodView

_Key = tuple[str, int]
_Name = tuple[str, str]
_T = TypeVar("_T")


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

    def key_of(self, view: PodView) -> PodKey | None:
        """Which pod it is; None if it is of no attempt that lives.

        Labels are copied by whoever copies a pod: Muster's own has its name and is in its namespace, too.
        """
        if view.member is None:
            return self._claimed.get(view.uid) or self._claim(view)
        key = view.member.key
        one = self._attempts.get((key.job_id, key.attempt))
        is_own = one is not None and view.key == (self._manifests.namespace(one.order), pod_name(key))
        return key if is_own else None

    def host(self, one: LiveAttempt) -> list[PodView]:
        """The attempt waits for pods of others. Those that are there already."""
        found: list[PodView] = []
        for key in self._guests.keys_of_order(one.order):
            self._hosts.setdefault(key, {})[one.key] = None
            found += [self.views[name] for name in self._strangers.get(key, ())]
        return found

    def unhost(self, one: LiveAttempt) -> None:
        """It waits no longer, and its pods are nobody's."""
        for key in self._guests.keys_of_order(one.order):
            _drop(self._hosts, key, one.key)
        for pod in one.pods.values():
            self._claimed.pop(pod.uid, None)

    def lose(self, view: PodView) -> PodKey | None:
        """The pod is no more. Which it was."""
        key = self.key_of(view) if view.member is not None else self._claimed.get(view.uid)
        self.views.pop(view.key, None)
        self._claimed.pop(view.uid, None)
        for one in self._guests.keys_of_pod(view):
            _drop(self._strangers, one, view.key)
        return key

    def clear(self) -> None:
        """Nothing is known of pods any more."""
        for held in (self.views, self._strangers, self._claimed):
            held.clear()

    def _claim(self, view: PodView) -> PodKey | None:
        """A pod that another made, for an attempt that waits for it."""
        for key in self._guests.keys_of_pod(view):
            for name in self._hosts.get(key, ()):
                one = self._attempts[name]
                place = self._guests.place_of(one.order, view)
                pod = None if place is None else one.pods.get(place)
                if pod is not None and (not pod.uid or pod.is_gone):
                    pod.namespace, pod.name = view.namespace, view.name
                    self._claimed[view.uid] = pod.key
                    return pod.key
            self._strangers.setdefault(key, {})[view.key] = None
        return None


def _drop(of: dict[str, dict[_T, None]], key: str, one: _T) -> None:
    """Without leaving an empty one behind."""
    held = of.get(key, {})
    held.pop(one, None)
    if not held:
        of.pop(key, None)
