"""What is known of one attempt's pods: what was asked, what was seen, how it ended. Data and questions, no deeds."""

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
"""Exit code of pods that cannot be: their manifest, or the API server's answer, says why."""
ADMISSION = frozenset({"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "PodOSNotSupported"})
"""Reasons of pods that the kubelet would not admit, beside "OutOf…" and "…AffinityError" (pkg/kubelet/lifecycle)."""
DISRUPTED = frozenset({"Preempting", "NodeShutdown", "Terminated", "Shutdown", "NodeLost"})
"""Reasons of pods that the kubelet, or what keeps nodes, ended without their doing. `Evicted` alone is none of them:
for want of something on the node the kubelet adds the condition `DisruptionTarget`; without it the pod wrote more than
it may, which is the job's failure."""
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
"""What a container waits for that seldom comes by itself: an image, a Secret or a ConfigMap that is not there."""
REASON_CHARS_MAX = 512
"""Of why an attempt ended: servers and kubelets write long sentences."""
CONTAINERS_RAN_SLACK_S = 1.0
"""Kubelets tell seconds."""


class PodState(IntEnum):
    """How far a pod has come, in order. A pod that is seen again after it was lost comes back from GONE."""

    WANTED = auto()
    """It has no object, as far as is known."""
    UNSURE = auto()
    """Its creation was not answered: the object may exist."""
    MADE = auto()
    PREPARING = auto()
    """It waits for what it needs before it may be bound: claims, services."""
    READY = auto()
    BOUND = auto()
    ENDED = auto()
    """Its processes ended; the object exists."""
    GONE = auto()
    """The object is deleted, or will never be made."""


class AttemptState(IntEnum):
    """How far the work on an attempt's pods has come. Checks that ended take it back to WANTED once."""

    WANTED = auto()
    BEGUN = auto()
    """What its pods share was asked for, and its pods are created and bound."""
    ENDING = auto()
    """Its pods are told to end."""
    ENDED = auto()
    """No pod runs any more: its exit may be reported."""


@dataclass(slots=True, eq=False)
class LivePod:
    """One pod, as it was asked and seen."""

    key: PodKey
    slot: Slot
    namespace: str
    name: str
    uid: str = ""
    """Of its object, "" before it is known."""
    state: PodState = PodState.WANTED
    view: PodView | None = None
    """As watched; None before that, and when it is gone."""
    end: End | None = None
    """How it ended; kept when the object is gone."""
    own_end: bool = False
    """It ended by itself, not because it was asked to."""
    is_adopted: bool = False
    """Somebody else made it, or is to make it."""
    is_released: bool = False
    """What it needed was taken back."""
    is_late: bool = False
    """A resize that is not reported yet adds it."""
    is_opened: bool = False
    """The gate before its first step was opened."""
    ending_s: int | None = None
    """Grace of the deletion that was asked for."""
    bind_at: Instant = NEVER
    """Not before, since its binding was refused."""
    refusals: int = 0
    """Of its creation for want of quota, or of its binding."""
    unmade: str = ""
    """Why there can be no such pod, of one that checks: the job does without."""
    number: int = 0
    """In the order in which the attempt's pods were first known: tells apart those that have one key in turn."""

    @property
    def is_check(self) -> bool:
        """It is not the job's: it checks a place before others make the pod that is to run there."""
        return self.key.is_check

    @property
    def exists(self) -> bool:
        """There is an object that was not seen to go."""
        return PodState.MADE <= self.state <= PodState.ENDED

    @property
    def is_over(self) -> bool:
        """No process of it runs any more, or ever will."""
        return self.state >= PodState.ENDED

    @property
    def has_run(self) -> bool:
        """It runs, or ran, if only its checks; a pod that the kubelet did not admit never did."""
        if self.unmade:
            return True
        if self.end is not None:
            return not was_turned_away(self.end)
        return self.view is not None and self.view.is_there

    @property
    def is_checked(self) -> bool:
        """Whether something checks, or checked, before the program of this pod."""
        return self.is_check or (self.view is not None and self.view.preflight is not None)

    @property
    def is_elsewhere(self) -> bool:
        """It was bound to another node than ours."""
        return self.view is not None and self.view.node not in ("", self.slot.node)

    @property
    def held_up(self) -> str:
        """Why its containers do not start, "" if nothing holds them up that time alone would not cure."""
        return self.view.waiting if self.view is not None and self.view.waiting in HELD_UP else ""

    @property
    def is_gated(self) -> bool:
        """Somebody holds it back (schedulingGates): it cannot be bound yet."""
        return self.view is not None and self.view.gated

    def see(self, view: PodView) -> None:
        """It is so."""
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
        """Its creation was answered; the watch tells the rest."""
        self.uid = uid
        self.state = max(self.state, PodState.MADE)

    def doubt(self) -> None:
        """Its creation was not answered."""
        if self.state is PodState.WANTED:
            self.state = PodState.UNSURE

    def lose(self, *, unmade: str = "") -> None:
        """Its object is no more. unmade: why there can be none, of a pod that the job does without."""
        self.view, self.unmade = None, self.unmade or unmade
        self.state = PodState.GONE


@dataclass(slots=True, eq=False)
class LiveAttempt:
    """The pods of one attempt, as they were asked and seen."""

    order: CreatePods
    """With the slots that shall run."""
    state: AttemptState = AttemptState.WANTED
    pods: dict[tuple[int, int], LivePod] = field(default_factory=dict)
    leaving: list[LivePod] = field(default_factory=list)
    """Pods that a resize ends, or that checked the places of others."""
    known_pods: int = 0
    """How many there were."""
    deletion: DeletePods | None = None
    verdict: PodsExited | None = None
    """How it ended by itself, or by what happened to it."""
    resize: ResizePods | None = None
    resized: bool = False
    started_at: Instant = NEVER
    """Since when the log has the start."""
    running_at: Instant = NEVER
    """Since when all its pods run."""
    ended_at: Instant = NEVER
    """Since when none runs any more."""
    bound_at: Instant = NEVER
    """Since when only part of it is bound."""
    held_up_at: Instant = NEVER
    """Since when a container cannot be started."""
    held_at: Instant = NEVER
    """Since when the job's pods wait until those that checked are gone."""
    checkpoint: Instant = NEVER
    """The newest that its pods report."""
    checkpoint_offered: Instant = NEVER
    checkpoint_told: Instant = NEVER
    """The newest that the log has."""
    opened_at: Instant = NEVER
    """Since when its first step may begin, where it is checked before."""
    awaits_first_step: bool = False
    """It is looked at again after its opening."""
    found_told: set[tuple[str, str]] = field(default_factory=set)
    """Nodes and checks of which the log has what they found."""
    checks_told: bool = False
    """The log has what all checks found."""
    checks_apart: bool = False
    """Others make its pods, and pods of Muster's own check their places before: so from the begin on."""
    is_checking: bool = False
    """`pods` are those that check."""

    def pod_for(self, key: PodKey, number: int) -> LivePod | None:
        """The pod that has this key and number; None if it was forgotten."""
        there = self.pods.get((key.group, key.replica))
        if there is not None and (there.key, there.number) == (key, number):
            return there
        return next((pod for pod in self.leaving if (pod.key, pod.number) == (key, number)), None)

    def next_number(self) -> int:
        """Of a pod that was not known before."""
        self.known_pods += 1
        return self.known_pods

    @property
    def key(self) -> tuple[str, int]:
        """Job and attempt."""
        return self.order.job_id, self.order.attempt

    @property
    def is_ending(self) -> bool:
        """Its pods shall be no more."""
        return self.deletion is not None or self.verdict is not None

    @property
    def has_begun(self) -> bool:
        """The job's own program may run: what is checked before passed."""
        return self.order.preflight is None or (bool(self.opened_at) and not self.is_checking)

    @property
    def is_held(self) -> bool:
        """The job's pods have to wait: those that checked are not gone, and hold its devices."""
        return any(pod.is_check for pod in self.leaving)

    @property
    def working_order(self) -> CreatePods:
        """As `pods` are made now, see `order_of`."""
        return self.order_of(is_check=self.is_checking)

    def order_of(self, *, is_check: bool) -> CreatePods:
        """As those who make pods, and what they need, are to see it: pods that check stand for no object."""
        return replace(self.order, origin=None) if is_check else self.order

    @property
    def is_whole(self) -> bool:
        """All its pods run or ran, and none that leaves is left."""
        return all(pod.has_run for pod in self.pods.values())

    @property
    def has_succeeded(self) -> bool:
        """The pods whose end is the job's end ended well, by themselves."""
        if self.is_checking or all(pod.end is None for pod in self.pods.values()):
            return False  # asked after every change, and mostly so
        deciding = deciding_groups(self.order.spec)
        ends = [pod for (group, _), pod in self.pods.items() if group in deciding]
        return bool(ends) and all(pod.end is not None and pod.end.succeeded and pod.own_end for pod in ends)

    def exited(self) -> PodsExitedSeen:
        """How it ended, once no pod runs."""
        verdict = self.verdict
        if verdict is None:
            verdict = self._obeyed()
        return PodsExitedSeen(self.key[0], verdict.model_copy(update={"ran_s": self._ran_s()}))

    def _obeyed(self) -> PodsExited:
        """It was told to end; how it had ended by itself before it obeyed stands."""
        deletion, own = self.deletion, own_end_of(self)
        lost_node = deletion.lost_node if deletion is not None else ""
        if own is not None and (own.outcome is PodsOutcome.SUCCEEDED or not lost_node):
            return own
        return self.says(PodsOutcome.NODE_LOST, node=lost_node) if lost_node else self.says(PodsOutcome.STOPPED)

    def says(self, outcome: PodsOutcome, *, exit_code: int = 0, node: str = "", reason: str = "") -> PodsExited:
        """This outcome of this attempt."""
        words = reason[:REASON_CHARS_MAX]
        return PodsExited(attempt=self.key[1], outcome=outcome, exit_code=exit_code, node=node, reason=words)

    def _ran_s(self) -> float:
        """From when the log had the start (or all ran) to the end; no longer than the containers say that they ran."""
        since = self.started_at or self.running_at
        if self.order.preflight is not None:
            since = self.opened_at
        if not since or self.is_checking:
            return 0.0
        ran_s = max(0.0, seconds_between(since, self.ended_at))
        told_s = max((pod.end.ran_s for pod in self.pods.values() if pod.end is not None), default=0.0)
        return min(ran_s, told_s + CONTAINERS_RAN_SLACK_S) if told_s else ran_s


def was_turned_away(end: End) -> bool:
    """The kubelet did not admit the pod: none of its containers was ever started."""
    return not end.succeeded and (
        end.reason.startswith("OutOf") or end.reason.endswith("AffinityError") or end.reason in ADMISSION
    )


def was_disrupted(end: End) -> bool:
    """The pod ended through no doing of its own."""
    return not end.succeeded and (was_turned_away(end) or end.reason in DISRUPTED or end.disrupted)


def first_failure(one: LiveAttempt) -> LivePod | None:
    """The first pod, by time, that failed by itself."""
    failed: LivePod | None = None
    for pod in one.pods.values():
        if pod.end is None or pod.end.succeeded or not pod.own_end or was_disrupted(pod.end):
            continue
        if failed is None or _finished(pod) < _finished(failed):
            failed = pod
    return failed


def own_end_of(one: LiveAttempt) -> PodsExited | None:
    """How the attempt ended by itself: the first pod that failed fails it; None if it did not.

    A failure before the first step is what checks the job, and no end of its own.
    """
    failed = first_failure(one) if one.has_begun else None
    if failed is not None and failed.end is not None:
        end = failed.end
        return one.says(PodsOutcome.FAILED, exit_code=end.exit_code or 1, node=failed.slot.node, reason=end.told)
    return one.says(PodsOutcome.SUCCEEDED) if one.has_succeeded else None


def judged(one: LiveAttempt) -> PodsExited | None:
    """How an attempt that nobody told to end ends by what its pods show; None as long as nothing ends it.

    A pod that was turned away by its kubelet, was disrupted, or vanished behind Muster's back takes the gang back to
    the queue as a lost node does.
    """
    own = own_end_of(one)
    if own is not None:
        return own
    gone = next((pod for pod in one.pods.values() if _is_taken(pod)), None)
    return None if gone is None else one.says(PodsOutcome.NODE_LOST, node=gone.slot.node, reason=_how_taken(gone))


def _is_taken(pod: LivePod) -> bool:
    """Somebody or something else ended it, or is about to."""
    if pod.unmade:
        return False
    if pod.end is not None:
        return was_disrupted(pod.end) or not pod.own_end
    asked = pod.view is not None and bool(pod.view.ends_at)
    return pod.state is PodState.GONE or pod.is_elsewhere or (asked and pod.ending_s is None)


def _how_taken(pod: LivePod) -> str:
    """In words, of a pod that is taken."""
    if pod.end is not None:
        return pod.end.told or "its pod was ended"
    if pod.is_elsewhere and pod.view is not None:
        return f"its pod was bound to {pod.view.node} by others"
    return "its pod is gone" if pod.state is PodState.GONE else "its pod is deleted by others"


def _finished(pod: LivePod) -> Instant:
    return pod.end.finished_at if pod.end is not None else NEVER
