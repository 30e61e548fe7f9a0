"""State of one attempt's pods: requests, what was seen, and the end. Data and queries, no effects."""

from dataclasses import dataclass, field, replace
from enum import IntEnum, auto

from muster.agent.core.cluster import CreatePods, DeletePods, PodsExitedSeen, ResizePods
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.rendezvous import deciding_groups
from muster.agent.core.kubernetes.views import End, PodView
from muster.core import Instant, seconds_between
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.job import Slot

NEVER = Instant(0)
CANNOT_START = 128
"""Exit code of pods that cannot be created; the message says why."""
ADMISSION = frozenset({"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "PodOSNotSupported"})
"""Reasons of pods that the kubelet did not admit, beside "OutOf…" and "…AffinityError" (pkg/kubelet/lifecycle)."""
DISRUPTED = frozenset({"Preempting", "NodeShutdown", "Terminated", "Shutdown", "NodeLost"})
"""Reasons of pods that the kubelet or node maintenance ended. `Evicted` alone is not among them: for node
pressure the kubelet adds the condition `DisruptionTarget`; without it the pod exceeded its own limits, which is the
job's failure."""
HELD_UP = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
"""Container waiting reasons that rarely resolve: a missing image, Secret or ConfigMap."""
REASON_CHARS_MAX = 512
"""Length of the reason of an end."""
CONTAINERS_RAN_SLACK_S = 1.0
"""Kubelets report whole seconds."""


class PodState(IntEnum):
    """Progress of a pod, in order. A pod that is seen again returns from GONE."""

    WANTED = auto()
    """No object is known."""
    UNSURE = auto()
    """The creation was not answered: the object may exist."""
    MADE = auto()
    PREPARING = auto()
    """It waits for claims or Services before its binding."""
    READY = auto()
    BOUND = auto()
    ENDED = auto()
    """Its processes ended; the object exists."""
    GONE = auto()
    """The object is deleted, or will never be created."""


class AttemptState(IntEnum):
    """Progress of an attempt. Finished checks return it to WANTED once."""

    WANTED = auto()
    BEGUN = auto()
    """Shared objects are requested, and pods are created and bound."""
    ENDING = auto()
    """Its pods are ending."""
    ENDED = auto()
    """No pod runs anymore: its exit can be reported."""


@dataclass(slots=True, eq=False)
class LivePod:
    """One pod, as requested and seen."""

    key: PodKey
    slot: Slot
    namespace: str
    name: str
    uid: str = ""
    """Uid of its object, "" while unknown."""
    state: PodState = PodState.WANTED
    view: PodView | None = None
    """As watched; None while absent."""
    end: End | None = None
    """Its end; kept after the object is gone."""
    own_end: bool = False
    """It ended by itself, not on request."""
    is_adopted: bool = False
    """Another controller creates it."""
    is_released: bool = False
    """Its auxiliary objects were released."""
    is_late: bool = False
    """A resize adds it that is not reported yet."""
    is_opened: bool = False
    """The gate before its first step was opened."""
    ending_s: int | None = None
    """Grace of the requested deletion."""
    bind_at: Instant = NEVER
    """Earliest time of its next binding, after a refusal."""
    refusals: int = 0
    """Refused creations for lack of quota, or refused bindings."""
    unmade: str = ""
    """Why a check pod cannot be created: the job runs without it."""
    number: int = 0
    """Sequence number within the attempt: tells apart successive pods with one key."""

    @property
    def is_check(self) -> bool:
        """Return whether it only checks the place of a pod that another controller creates."""
        return self.key.is_check

    @property
    def exists(self) -> bool:
        """Return whether its object exists."""
        return PodState.MADE <= self.state <= PodState.ENDED

    @property
    def is_over(self) -> bool:
        """Return whether none of its processes runs or will run."""
        return self.state >= PodState.ENDED

    @property
    def has_run(self) -> bool:
        """Return whether it runs or ran, if only its checks; a pod that was not admitted never ran."""
        if self.unmade:
            return True
        if self.end is not None:
            return not was_turned_away(self.end)
        return self.view is not None and self.view.is_there

    @property
    def is_checked(self) -> bool:
        """Return whether checks run before its program."""
        return self.is_check or (self.view is not None and self.view.preflight is not None)

    @property
    def is_elsewhere(self) -> bool:
        """Return whether it was bound to another node."""
        return self.view is not None and self.view.node not in ("", self.slot.node)

    @property
    def held_up(self) -> str:
        """Return why its containers do not start, "" if only time is needed."""
        return self.view.waiting if self.view is not None and self.view.waiting in HELD_UP else ""

    @property
    def is_gated(self) -> bool:
        """Return whether scheduling gates prevent its binding."""
        return self.view is not None and self.view.gated

    def see(self, view: PodView) -> None:
        """Handle a new state."""
        self.uid, self.view = view.uid, view
        if view.end is not None and self.end is None:
            self.end = view.end
            self.own_end = not view.ends_at or view.end.says_done
        if self.end is not None:
            self.state = PodState.ENDED
        elif view.node:
            self.state = PodState.BOUND
        elif not self.exists:
            self.state = PodState.MADE

    def made(self, uid: str) -> None:
        """Record its creation; the watch brings the rest."""
        self.uid = uid
        self.state = max(self.state, PodState.MADE)

    def doubt(self) -> None:
        """Record that its creation was not answered."""
        if self.state is PodState.WANTED:
            self.state = PodState.UNSURE

    def lose(self, *, unmade: str = "") -> None:
        """Record that its object is gone; `unmade` is why a check pod cannot exist."""
        self.view, self.unmade = None, self.unmade or unmade
        self.state = PodState.GONE


@dataclass(slots=True, eq=False)
class LiveAttempt:
    """The pods of one attempt, as requested and seen."""

    order: CreatePods
    """With the slots that should run."""
    state: AttemptState = AttemptState.WANTED
    pods: dict[tuple[int, int], LivePod] = field(default_factory=dict)
    leaving: list[LivePod] = field(default_factory=list)
    """Pods that a resize ends, or finished check pods."""
    known_pods: int = 0
    """Number of pods known so far."""
    deletion: DeletePods | None = None
    verdict: PodsExited | None = None
    """How it ended by itself or by a disruption."""
    resize: ResizePods | None = None
    resized: bool = False
    started_at: Instant = NEVER
    """Time of the start in the log."""
    running_at: Instant = NEVER
    """Since when all its pods run."""
    ended_at: Instant = NEVER
    """Since when none runs anymore."""
    bound_at: Instant = NEVER
    """Since when it is bound only in part."""
    held_up_at: Instant = NEVER
    """Since when a container cannot start."""
    held_at: Instant = NEVER
    """Since when the job's pods wait until the check pods are gone."""
    checkpoint: Instant = NEVER
    """The newest checkpoint that its pods report."""
    checkpoint_offered: Instant = NEVER
    checkpoint_told: Instant = NEVER
    """The newest checkpoint in the log."""
    opened_at: Instant = NEVER
    """Since when its first step may begin, if it has checks."""
    awaits_first_step: bool = False
    """It is evaluated again after its opening."""
    found_told: set[tuple[str, str]] = field(default_factory=set)
    """Nodes and checks whose results are in the log."""
    checks_told: bool = False
    """The log has all results."""
    checks_apart: bool = False
    """Another controller creates its pods, and check pods of Muster run before."""
    is_checking: bool = False
    """`pods` are check pods."""

    def pod_for(self, key: PodKey, number: int) -> LivePod | None:
        """Return the pod of this key and number; None if it was forgotten."""
        there = self.pods.get((key.group, key.replica))
        if there is not None and (there.key, there.number) == (key, number):
            return there
        return next((pod for pod in self.leaving if (pod.key, pod.number) == (key, number)), None)

    def next_number(self) -> int:
        """Return the number of a new pod."""
        self.known_pods += 1
        return self.known_pods

    @property
    def key(self) -> tuple[str, int]:
        """Return job id and attempt."""
        return self.order.job_id, self.order.attempt

    @property
    def is_ending(self) -> bool:
        """Return whether its pods are to end."""
        return self.deletion is not None or self.verdict is not None

    @property
    def has_begun(self) -> bool:
        """Return whether the job's own program may run: its checks passed."""
        return self.order.preflight is None or (bool(self.opened_at) and not self.is_checking)

    @property
    def is_held(self) -> bool:
        """Return whether the job's pods wait for check pods that still hold its devices."""
        return any(pod.is_check for pod in self.leaving)

    @property
    def working_order(self) -> CreatePods:
        """Return the order of the current `pods`, see `order_of`."""
        return self.order_of(is_check=self.is_checking)

    def order_of(self, *, is_check: bool) -> CreatePods:
        """Return the order for manifests and auxiliary objects: check pods represent no object."""
        return replace(self.order, origin=None) if is_check else self.order

    @property
    def is_whole(self) -> bool:
        """Return whether all its pods run or ran."""
        return all(pod.has_run for pod in self.pods.values())

    @property
    def has_succeeded(self) -> bool:
        """Return whether the deciding pods succeeded by themselves."""
        if self.is_checking or all(pod.end is None for pod in self.pods.values()):
            return False  # the common case, checked after every change
        deciding = deciding_groups(self.order.spec)
        ends = [pod for (group, _), pod in self.pods.items() if group in deciding]
        return bool(ends) and all(pod.end is not None and pod.end.succeeded and pod.own_end for pod in ends)

    def exited(self) -> PodsExitedSeen:
        """Return how it ended, once no pod runs."""
        verdict = self.verdict
        if verdict is None:
            verdict = self._obeyed()
        return PodsExitedSeen(self.key[0], verdict.model_copy(update={"ran_s": self._ran_s()}))

    def _obeyed(self) -> PodsExited:
        """Return the end after a deletion; an own end before it stays."""
        deletion, own = self.deletion, own_end_of(self)
        lost_node = deletion.lost_node if deletion is not None else ""
        if own is not None and (own.outcome is PodsOutcome.SUCCEEDED or not lost_node):
            return own
        return self.says(PodsOutcome.NODE_LOST, node=lost_node) if lost_node else self.says(PodsOutcome.STOPPED)

    def says(self, outcome: PodsOutcome, *, exit_code: int = 0, node: str = "", reason: str = "") -> PodsExited:
        """Return this outcome of the attempt."""
        words = reason[:REASON_CHARS_MAX]
        return PodsExited(attempt=self.key[1], outcome=outcome, exit_code=exit_code, node=node, reason=words)

    def _ran_s(self) -> float:
        """Return the run time from the start in the log to the end, at most that of the containers."""
        since = self.started_at or self.running_at
        if self.order.preflight is not None:
            since = self.opened_at
        if not since or self.is_checking:
            return 0.0
        ran_s = max(0.0, seconds_between(since, self.ended_at))
        told_s = max((pod.end.ran_s for pod in self.pods.values() if pod.end is not None), default=0.0)
        return min(ran_s, told_s + CONTAINERS_RAN_SLACK_S) if told_s else ran_s


def was_turned_away(end: End) -> bool:
    """Return whether the kubelet did not admit the pod: no container was started."""
    return not end.succeeded and (
        end.reason.startswith("OutOf") or end.reason.endswith("AffinityError") or end.reason in ADMISSION
    )


def was_disrupted(end: End) -> bool:
    """Return whether the pod was ended by a disruption."""
    return not end.succeeded and (was_turned_away(end) or end.reason in DISRUPTED or end.disrupted)


def first_failure(one: LiveAttempt) -> LivePod | None:
    """Return the first pod, by time, that failed by itself."""
    failed: LivePod | None = None
    for pod in one.pods.values():
        if pod.end is None or pod.end.succeeded or not pod.own_end or was_disrupted(pod.end):
            continue
        if failed is None or _finished(pod) < _finished(failed):
            failed = pod
    return failed


def own_end_of(one: LiveAttempt) -> PodsExited | None:
    """Return how the attempt ended by itself: the first failed pod fails it; None if it did not.

    A failure before the first step is a failed check, not an end of the attempt.
    """
    failed = first_failure(one) if one.has_begun else None
    if failed is not None and failed.end is not None:
        end = failed.end
        return one.says(PodsOutcome.FAILED, exit_code=end.exit_code or 1, node=failed.slot.node, reason=end.told)
    return one.says(PodsOutcome.SUCCEEDED) if one.has_succeeded else None


def judged(one: LiveAttempt) -> PodsExited | None:
    """Return how an attempt without a deletion ends, by its pods; None while it does not.

    A pod that was not admitted, was disrupted, or disappeared without Muster returns the gang to the queue, as a lost
    node does.
    """
    own = own_end_of(one)
    if own is not None:
        return own
    gone = next((pod for pod in one.pods.values() if _is_taken(pod)), None)
    return None if gone is None else one.says(PodsOutcome.NODE_LOST, node=gone.slot.node, reason=_how_taken(gone))


def _is_taken(pod: LivePod) -> bool:
    """Return whether something else ended the pod, or is about to."""
    if pod.unmade:
        return False
    if pod.end is not None:
        return was_disrupted(pod.end) or not pod.own_end
    asked = pod.view is not None and bool(pod.view.ends_at)
    return pod.state is PodState.GONE or pod.is_elsewhere or (asked and pod.ending_s is None)


def _how_taken(pod: LivePod) -> str:
    """Return why the pod is taken."""
    if pod.end is not None:
        return pod.end.told or "its pod was ended"
    if pod.is_elsewhere and pod.view is not None:
        return f"its pod was bound to {pod.view.node} by others"
    return "its pod is gone" if pod.state is PodState.GONE else "its pod is deleted by others"


def _finished(pod: LivePod) -> Instant:
    return pod.end.finished_at if pod.end is not None else NEVER
