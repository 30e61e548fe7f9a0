"""Ports for auxiliary objects of pods (claims, Services) and for pods that other controllers create.

Gangs use only these ports. Implementations put their calls on the worklist.
"""

from collections.abc import Sequence
from typing import Protocol

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.views import PodView
from muster.core import Instant
from muster.kube.objects import JsonObject
from muster.schemas.job import Slot


class ImpossiblePodError(Exception):
    """The cluster cannot create such a pod, now or later; `field` is the job's, `cure` the hint."""

    def __init__(self, message: str, *, field: str, cure: str) -> None:
        super().__init__(f"{field}: {message}; {cure}")
        self.field = field
        self.cure = cure


class Manifests(Protocol):
    """Builds manifests of pods: pure, the same for the same order."""

    def namespace(self, order: CreatePods) -> str:
        """Return the namespace of the attempt's pods."""
        ...

    def pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """Return the unbound pod of one slot, with the name of its `PodKey` and the labels of `names`."""
        ...

    @property
    def makes_check_pods(self) -> bool:
        """Return whether check pods have an image."""
        ...

    def check_pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """Return the check pod for the slot, for an order of `LiveAttempt.order_of`."""
        ...


class Watcher(Protocol):
    """Receives whether pods have what they need; implemented by the gangs."""

    def is_ready(self, key: PodKey, *, uid: str) -> None:
        """Allow the binding of the pod whose object has this uid."""
        ...

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """Refuse the pod: unless it is bound, the whole gang is rolled back and queued again.

        `uid` is that of the pod's object; "" for any pod with the key.
        """
        ...


class AdoptionWatcher(Watcher, Protocol):
    """Receives events of objects, too; implemented by the gangs."""

    def goes_on(self, attempt: tuple[str, int], *, reason: str) -> None:
        """Have the pods ended one by one, because the attempt's object does not end them."""
        ...


class AuxiliaryObjects:
    """Auxiliary objects of pods; this base class is for pods without any.

    Every call may be repeated: after a change of leader all are.
    """

    def watched_by(self, watcher: Watcher) -> None:
        """Set the receiver of events."""

    def begin(self, order: CreatePods, now: Instant) -> None:
        """Request what the gang's pods share (a Service) before they are created."""

    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:  # noqa: ARG002 - the port
        """Request what an unbound pod needs. True if it has it; otherwise `is_ready` or `is_refused` follows."""
        return True

    def release(self, order: CreatePods, slot: Slot, now: Instant) -> None:
        """Release what a pod needed that ended, is gone or was never created."""

    def end(self, order: CreatePods, now: Instant) -> None:
        """Release what the gang shared; no pod is left and the log has that."""

    def clear(self) -> None:
        """Forget everything, because another process leads."""


class AdoptedPods:
    """Pods that a person or an object's controller created for a job: their slots and their end.

    This base class is for clusters where Muster creates every pod.
    """

    def watched_by(self, watcher: AdoptionWatcher) -> None:
        """Set the receiver of pods that will never be created, or never end."""

    @property
    def has_news(self) -> bool:
        """Return whether objects have news for the log."""
        return False

    def seen(self, pod: PodView) -> None:
        """Handle a new state of any pod, which may ask to run by itself."""

    def gone(self, pod: PodView) -> None:
        """Handle a deleted pod, given its last state."""

    def synced(self) -> None:
        """Record that all objects and pods were seen: missing ones do not exist."""

    def clear(self) -> None:
        """Forget everything, because another process leads."""

    def refusal(self, order: CreatePods) -> str:  # noqa: ARG002 - the port
        """Return why the job must have no pods, because its object never asked for it; "" if it may."""
        return ""

    def makes_own_pods(self, order: CreatePods) -> bool:  # noqa: ARG002 - the port
        """Return whether the job's object creates its pods, so that they are awaited and bound, never created."""
        return False

    def keys_of_order(self, order: CreatePods) -> tuple[str, ...]:  # noqa: ARG002 - the port
        """Return keys by which pods of this attempt are found: uids or names of owners."""
        return ()

    def keys_of_pod(self, pod: PodView) -> tuple[str, ...]:  # noqa: ARG002 - the port
        """Return the keys of a pod: it may belong to an attempt with an equal key."""
        return ()

    def place_of(self, order: CreatePods, pod: PodView) -> tuple[int, int] | None:  # noqa: ARG002 - the port
        """Return group and replica of the pod in the attempt; None if it belongs to another."""
        return None

    def begin(self, order: CreatePods, now: Instant) -> None:
        """Let the object create the attempt's pods. May be repeated."""

    def stop(self, order: CreatePods, *, grace_s: float, now: Instant) -> bool:  # noqa: ARG002 - the port
        """End the attempt's pods by suspending the object. False: delete them one by one. May be repeated."""
        return False

    def forget(self, order: CreatePods) -> None:
        """Forget an attempt whose end is in the log."""
