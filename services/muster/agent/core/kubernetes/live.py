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
    """One pod. uid: of its object, "" before it is known. view: as watched, None before that and when it is gone.

    end: how it ended, kept when the object is gone; own_end: by itself, not because it was told to. is_guest: somebody
    else made it. is_late: a resize that is not told yet adds it. ending_s: grace of the deletion that was asked.
    bind_at: not before, since it was refused. refusals: for want of quota. is_opened: its gate was.
    unmade: why there can be no such pod, of one that checks: the job does without. number: of the attempt's pods, in
    the order in which they were first known; pods that are known under one key in turn differ by it.
    """

    key: PodKey
    slot: Slot
    namespace: str
    name: str
    uid: str = ""
    view: PodView | None = None
    end: End | None = None
    own_end: bool = False
    state: PodState = PodState.WANTED
    is_guest: bool = False
    is_released: bool = False
    is_late: bool = False
    ending_s: int | None = None
    bind_at: Instant = NEVER
    refusals: int = 0
    number: int = 0
    is_opened: bool = False
    unmade: str = ""

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
    """The pods of one attempt. order: with the slots that shall run. leaving: pods that a resize ends.

    started_at: since when the log has the start. running_at: since when all ran. verdict: how it ended by itself, or by
    what happened to it. ended_at: since when none runs any more. bound_at: since when only part is bound. checkpoint:
    the newest that its pods tell of; told: that the log has. held_up_at: since when a container cannot be started.
    opened_at: since when its first step may begin, where it is checked before. found_told: nodes and checks of which
    the log has what they found; checks_told: it has all. awaits_first_step: it is looked at again after its opening.

    Where others make the job's pods, pods of our own may check their places before: checks_apart says so from the begin
    on, and is_checking as long as `pods` are those. held_at: since when the job's pods wait until they are gone.
    known_pods: how many there were.
    """

    order: CreatePods
    pods: dict[tuple[int, int], LivePod] = field(default_factory=dict)
    leaving: list[LivePod] = field(default_factory=list)
    deletion: DeletePods | None = None
    resize: ResizePods | None = None
    verdict: PodsExited | None = None
    state: AttemptState = AttemptState.WANTED
    started_at: Instant = NEVER
    running_at: Instant = NEVER
    ended_at: Instant = NEVER
    bound_at: Instant = NEVER
    checkpoint: Instant = NEVER
    checkpoint_offered: Instant = NEVER
    checkpoint_told: Instant = NEVER
    held_up_at: Instant = NEVER
    resized: bool = False
    opened_at: Instant = NEVER
    found_told: set[tuple[str, str]] = field(default_factory=set)
    checks_told: bool = False
    awaits_first_step: bool = False
    checks_apart: bool = False
    is_checking: bool = False
    held_at: Instant = NEVER
    known_pods: int = 0

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
