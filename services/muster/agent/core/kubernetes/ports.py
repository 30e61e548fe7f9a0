"""What pods need beside themselves: claims whose devices are chosen, services by which the pods of a gang meet.

The gangs know nothing of it but this port. Parts that have calls of their own ask the worklist for them.
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
    """The cluster cannot have such a pod. field: of the job; cure: what to do. It would never get better by itself."""

    def __init__(self, message: str, *, field: str, cure: str) -> None:
        super().__init__(f"{field}: {message}; {cure}")
        self.field = field
        self.cure = cure


class Manifests(Protocol):
    """Makes the objects of pods: pure, the same for the same order."""

    def namespace(self, order: CreatePods) -> str:
        """Where the pods of this attempt are."""
        ...

    def pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """The pod of one slot, unbound: named by `PodKey.name`, with the labels of `names`. peers: all slots."""
        ...

    @property
    def makes_check_pods(self) -> bool:
        """Whether `check_pod` can be asked: there is an image for it."""
        ...

    def check_pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        """The pod that runs the checks of the order's plan at the slot's place, before others make the job's own.

        order: see `LiveAttempt.order_of`.
        """
        ...


class Watcher(Protocol):
    """Who is told when a pod has what it needs. The gangs are."""

    def is_ready(self, key: PodKey, *, uid: str) -> None:
        """The pod whose object has this uid may be bound."""
        ...

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """It cannot have it there: unless it is bound already, the gang is rolled back whole and queued again.

        uid: of the pod's object; "" for whichever pod has the key.
        """
        ...


class AdoptionWatcher(Watcher, Protocol):
    """Who is told of objects as well. The gangs are."""

    def goes_on(self, attempt: tuple[str, int], *, reason: str) -> None:
        """The object of an attempt (job and number) does not end its pods: somebody else has to."""
        ...


class AuxiliaryObjects:
    """Keeps what pods need; by itself, of pods that need nothing.

    Every call may come again: after a change of leader all of them do.
    """

    def watched_by(self, watcher: Watcher) -> None:
        """Tell this one, from now on."""

    def begin(self, order: CreatePods, now: Instant) -> None:
        """The gang's pods are about to be made: what they have in common (a service) is due."""

    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:  # noqa: ARG002 - the port
        """The pod exists, unbound. True: it has what it needs; False: `is_ready` or `is_refused` will say."""
        return True

    def release(self, order: CreatePods, slot: Slot, now: Instant) -> None:
        """The pod ended, or is gone, or was never made: take back what was its own."""

    def end(self, order: CreatePods, now: Instant) -> None:
        """No pod of the gang is left and the log has that: take back what they had in common."""

    def clear(self) -> None:
        """Another leads: forget what was under way."""


class AdoptedPods:
    """Pods that others made for a job - a person, or an object's controller: which is whose, and how they end.

    By itself, where every pod is Muster's own.
    """

    def watched_by(self, watcher: AdoptionWatcher) -> None:
        """Tell this one of pods that will never be made, or never end, from now on."""

    @property
    def has_news(self) -> bool:
        """Whether objects were seen of which the log has to hear."""
        return False

    def seen(self, pod: PodView) -> None:
        """A pod is so, whosever it is: it may ask to run by itself."""

    def gone(self, pod: PodView) -> None:
        """A pod, as it was last seen, is no more."""

    def synced(self) -> None:
        """All objects and pods were seen: what is not among them is not there."""

    def clear(self) -> None:
        """Another leads: nothing is known of objects until they are seen again."""

    def refusal(self, order: CreatePods) -> str:  # noqa: ARG002 - the port
        """Why the job must have no pods here: the object that it stands for never asked for it. "" if it may."""
        return ""

    def makes_own_pods(self, order: CreatePods) -> bool:  # noqa: ARG002 - the port
        """Whether the job's object makes its pods itself, so that they are waited for and bound, never created."""
        return False

    def keys_of_order(self, order: CreatePods) -> tuple[str, ...]:  # noqa: ARG002 - the port
        """By which pods of this attempt may be known: uids or names of objects that own them."""
        return ()

    def keys_of_pod(self, pod: PodView) -> tuple[str, ...]:  # noqa: ARG002 - the port
        """The same of a pod: it may be the attempt's where one key is equal."""
        return ()

    def place_of(self, order: CreatePods, pod: PodView) -> tuple[int, int] | None:  # noqa: ARG002 - the port
        """Group and replica of the attempt that this pod is; None: it is none of them."""
        return None

    def begin(self, order: CreatePods, now: Instant) -> None:
        """The attempt's pods may come: let its object make them. May come again."""

    def stop(self, order: CreatePods, *, grace_s: float, now: Instant) -> bool:  # noqa: ARG002 - the port
        """End the attempt's pods by its object (suspend it). False: delete them one by one. May come again."""
        return False

    def forget(self, order: CreatePods) -> None:
        """The log has the attempt's end."""
