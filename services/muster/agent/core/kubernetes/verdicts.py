"""End attempts whose pods did not end by themselves: queue them again, or fail them.

A node whose kubelet lacks the devices in the ledger gets no new pods for a while. If the kubelet refuses the pod
itself, other kubelets would, too: nodes stay open, and the job fails after a few attempts, with the reason.
"""

from muster.agent.core.kubernetes.context import Context
from muster.agent.core.kubernetes.live import CANNOT_START, LiveAttempt, LivePod, first_failure, was_turned_away
from muster.agent.core.kubernetes.views import End
from muster.core import Instant
from muster.schemas.facts.job import PodsExited, PodsOutcome

FOR_PODS_MAX = 3
"""Consecutive attempts of a job that may be queued again because its pods were refused."""
FOR_NODES_MAX = 10
"""The same for missing resources of a node: the next attempt uses another node, or the same much later."""
JOBS_MAX = 1_000
"""Jobs whose refused attempts are counted; the oldest are forgotten. The scheduler has its own bound."""


def is_for_node(end: End) -> bool:
    """Return whether the kubelet found less on its node than the ledger; otherwise it will never admit this pod."""
    return end.reason.startswith("OutOf") or end.reason in ("UnexpectedAdmissionError", "TopologyAffinityError")


class Verdicts:
    """Gives verdicts to attempts; one that has a verdict keeps it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refused: dict[str, tuple[int, int]] = {}  # by job: its last refused attempt, and how many there were

    def roll_back(self, one: LiveAttempt, pod: LivePod, *, reason: str) -> None:
        """Queue the gang again, without using the job's retries, because it cannot run as placed."""
        if not one.is_ending:
            self._context.notes.rolled_back += 1
            self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]} is rolled back: pod {pod.name}: {reason}")
            one.verdict = one.says(PodsOutcome.NODE_LOST, node=pod.slot.node, reason=reason)

    def fail(self, one: LiveAttempt, pod: LivePod, *, reason: str) -> None:
        """Fail the attempt, because it can never run."""
        self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]} fails: pod {pod.name}: {reason}")
        one.verdict = one.says(PodsOutcome.FAILED, exit_code=CANNOT_START, node=pod.slot.node, reason=reason)

    def impossible(self, one: LiveAttempt, pod: LivePod, *, reason: str) -> None:
        """Handle a pod that cannot exist. The job runs without a check pod: its checks count as not run."""
        if not pod.is_check:
            self.fail(one, pod, reason=reason)
            return
        pod.lose(unmade=reason)
        self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]}: cannot create check pod {pod.name}: {reason}")

    def lost(self, one: LiveAttempt, loss: PodsExited) -> None:
        """Queue the gang again, because others removed a pod."""
        self._context.notes.rolled_back += 1
        self._context.notes.say(
            f"job {one.key[0]} attempt {one.key[1]} goes back to the queue: on {loss.node} {loss.reason}"
        )
        one.verdict = loss

    def refuse(self, one: LiveAttempt, pod: LivePod, *, reason: str, most: int = FOR_PODS_MAX) -> None:
        """Queue the gang again after a refused pod, up to a number of consecutive attempts."""
        if one.is_ending:
            return
        times = self._count(one)
        if times > most:
            self.fail(one, pod, reason=f"{reason} ({times} attempts in a row were refused)")
        else:
            self.roll_back(one, pod, reason=reason)

    def turned_away(self, one: LiveAttempt, now: Instant) -> bool:
        """Return whether a kubelet did not admit a pod: the attempt ends, and a node at fault gets no new pods for a
        while."""
        away = [(pod, pod.end) for pod in one.pods.values() if pod.end is not None and was_turned_away(pod.end)]
        if not away:
            return False
        for pod, end in away:
            if is_for_node(end):
                self._context.nodes.turned_away(pod.slot.node, now, why=f"its kubelet turned a pod away: {end.reason}")
        pod, end = next(((pod, end) for pod, end in away if not is_for_node(end)), away[0])
        most = FOR_NODES_MAX if is_for_node(end) else FOR_PODS_MAX
        self.refuse(one, pod, reason=f"the kubelet of {pod.slot.node} turned it away: {end.told}", most=most)
        return True

    def failed_to_begin(self, one: LiveAttempt) -> bool:
        """Return whether it ended before its first step by a failed check pod, which is no failure of the job, up to a
        bound.

        A pod without checks runs the job's own program: its failure waits until the attempt has begun.
        """
        pod = first_failure(one) if not one.has_begun else None
        if pod is None or pod.end is None or not pod.is_checked:
            return False
        self.refuse(one, pod, reason=f"what checks it ended with {pod.end.exit_code}: {pod.end.told}")
        return True

    def never_begins(self, one: LiveAttempt, pod: LivePod, now: Instant) -> None:
        """Queue the gang again because its checks hang, and keep new pods off the node for a while."""
        reason = "its checks do not end, long after their limit"
        self._context.nodes.turned_away(pod.slot.node, now, why=reason)
        self.roll_back(one, pod, reason=reason)

    def started(self, job_id: str) -> None:
        """Reset the count of refused attempts of a job that runs."""
        self._refused.pop(job_id, None)

    def _count(self, one: LiveAttempt) -> int:
        """Return the consecutive refused attempts of its job, with this one, which counts once."""
        job_id, attempt = one.key
        last, times = self._refused.pop(job_id, (0, 0))
        times += attempt != last
        self._refused[job_id] = attempt, times
        if len(self._refused) > JOBS_MAX:
            del self._refused[next(iter(self._refused))]
        return times
