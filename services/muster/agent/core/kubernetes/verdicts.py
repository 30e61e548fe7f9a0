"""Attempts that end without an end of their pods' own: back to the queue, or for good.

A kubelet that has not the devices that the books say gets nothing new for a while. What it holds against the pod itself
every other kubelet would, too: nodes stay open, and the job fails after a few attempts, with the reason.
"""

from muster.agent.core.kubernetes.context import Context
from muster.agent.core.kubernetes.live import CANNOT_START, LiveAttempt, LivePod, first_failure, was_turned_away
from muster.agent.core.kubernetes.views import End
from muster.core import Instant
from muster.schemas.facts.job import PodsExited, PodsOutcome

FOR_PODS_MAX = 3
"""Attempts in a row of one job that may go back to the queue because its pods were refused for what they are."""
FOR_NODES_MAX = 10
"""The same for want of something on the node: that is another node, or the same one much later, each time."""
JOBS_MAX = 1_000
"""Jobs whose refused attempts are counted; those longest ago are forgotten. The scheduler has a bound of its own."""


def is_for_node(end: End) -> bool:
    """The kubelet found less on its node than the books say; else it would never have this pod, whatever is free."""
    return end.reason.startswith("OutOf") or end.reason in ("UnexpectedAdmissionError", "TopologyAffinityError")


class Verdicts:
    """Passes them on attempts; one that has a verdict keeps it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refused: dict[str, tuple[int, int]] = {}  # by job: its last refused attempt, and how many there were

    def roll_back(self, one: LiveAttempt, pod: LivePod, *, reason: str) -> None:
        """The gang cannot run as it was placed: it goes back to the queue, without using the job's retries."""
        if not one.is_ending:
            self._context.notes.rolled_back += 1
            self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]} is rolled back: pod {pod.name}: {reason}")
            one.verdict = one.says(PodsOutcome.NODE_LOST, node=pod.slot.node, reason=reason)

    def fail(self, one: LiveAttempt, pod: LivePod, *, reason: str) -> None:
        """It will never run."""
        self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]} fails: pod {pod.name}: {reason}")
        one.verdict = one.says(PodsOutcome.FAILED, exit_code=CANNOT_START, node=pod.slot.node, reason=reason)

    def impossible(self, one: LiveAttempt, pod: LivePod, *, reason: str) -> None:
        """There can be no such pod. The job does without one that only checks: its checks could not run."""
        if not pod.is_check:
            self.fail(one, pod, reason=reason)
            return
        pod.lose(unmade=reason)
        self._context.notes.say(f"job {one.key[0]} attempt {one.key[1]}: no pod {pod.name} to check it: {reason}")

    def lost(self, one: LiveAttempt, loss: PodsExited) -> None:
        """A pod was taken away by others."""
        self._context.notes.rolled_back += 1
        self._context.notes.say(
            f"job {one.key[0]} attempt {one.key[1]} goes back to the queue: on {loss.node} {loss.reason}"
        )
        one.verdict = loss

    def refuse(self, one: LiveAttempt, pod: LivePod, *, reason: str, most: int = FOR_PODS_MAX) -> None:
        """The pod was refused: back to the queue, but only so often in a row."""
        if one.is_ending:
            return
        times = self._count(one)
        if times > most:
            self.fail(one, pod, reason=f"{reason} ({times} attempts in a row were refused)")
        else:
            self.roll_back(one, pod, reason=reason)

    def turned_away(self, one: LiveAttempt, now: Instant) -> bool:
        """Whether a kubelet would not have a pod of it: then it ends, and nodes at fault get nothing for a while."""
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
        """Whether it ended before its first step, by what checks it: no failure of the job's, but only so often.

        A pod that was made without checks is the job's own program: its failure waits until the attempt has begun.
        """
        pod = first_failure(one) if not one.has_begun else None
        if pod is None or pod.end is None or not pod.is_checked:
            return False
        self.refuse(one, pod, reason=f"what checks it ended with {pod.end.exit_code}: {pod.end.told}")
        return True

    def never_begins(self, one: LiveAttempt, pod: LivePod, now: Instant) -> None:
        """Its checks hang: the gang goes elsewhere, and so does everything else for a while."""
        reason = "its checks do not end, long after their limit"
        self._context.nodes.turned_away(pod.slot.node, now, why=reason)
        self.roll_back(one, pod, reason=reason)

    def started(self, job_id: str) -> None:
        """An attempt runs: what was in its way is over."""
        self._refused.pop(job_id, None)

    def _count(self, one: LiveAttempt) -> int:
        """Refused attempts of its job in a row, with this one, which counts once."""
        job_id, attempt = one.key
        last, times = self._refused.pop(job_id, (0, 0))
        times += attempt != last
        self._refused[job_id] = attempt, times
        if len(self._refused) > JOBS_MAX:
            del self._refused[next(iter(self._refused))]
        return times
