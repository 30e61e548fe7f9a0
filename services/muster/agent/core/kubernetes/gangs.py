"""Attempts on a Kubernetes cluster: effects become calls, the state of their pods becomes observations.

Everything follows from the attempt as requested and its pods as seen, so any leader can continue: names are
deterministic, and only missing pods are created. Attempts are evaluated in batches, never per event: a gang of 4,096
pods costs one walk per batch.
"""

import itertools
from collections.abc import Callable, Iterator

from muster.agent.core.cluster import (
    CheckpointSeen,
    ChecksSeen,
    CreatePods,
    DeletePods,
    OpenGate,
    PodsEffect,
    PodsExitedSeen,
    PodsObservation,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.agent.core.kubernetes.calls import Outcome
from muster.agent.core.kubernetes.context import AttemptKey, Context, EndPod, NodesSeen, OpenPodGate, PodPurpose
from muster.agent.core.kubernetes.live import NEVER, AttemptState, LiveAttempt, PodState, judged
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.pod_creator import PodCreator
from muster.agent.core.kubernetes.preflight import PreflightGates, next_report
from muster.agent.core.kubernetes.reconciler import Reconciler
from muster.agent.core.kubernetes.slot_assigner import SlotAssigner
from muster.agent.core.kubernetes.terminator import Terminator
from muster.agent.core.kubernetes.verdicts import FOR_NODES_MAX, FOR_PODS_MAX, Verdicts
from muster.agent.core.kubernetes.views import PodView
from muster.core import Instant


class Gangs:
    """The attempts. A gang may be bound in part for `bind_s`; `leave` gets pods that outlive their attempt."""

    def __init__(self, context: Context, leave: Callable[[PodView, Instant], None], *, bind_s: float) -> None:
        self.attempts: dict[AttemptKey, LiveAttempt] = {}
        self.is_synced = False
        """Whether all pods were seen: before, absence means nothing."""
        self._context = context
        self._due = context.due
        self._leave = leave
        self._news: dict[AttemptKey, None] = {}
        self._verdicts = Verdicts(context)
        self._creator = PodCreator(context, self._verdicts)
        self._terminator = Terminator(context)
        self._gates = PreflightGates(context)
        self._slots = SlotAssigner(self.attempts, context, self._verdicts, self._creator, self._terminator)
        self._reconciler = Reconciler(
            context,
            self._verdicts,
            self._creator,
            self._terminator,
            gates=self._gates,
            slots=self._slots,
            bind_s=bind_s,
        )
        context.worklist.serve(self, PodPurpose)
        context.auxiliary.watched_by(self)
        context.adopted.watched_by(self)

    def carry_out(self, effect: PodsEffect) -> None:
        """Accept an effect."""
        one = self.attempts.get((effect.job_id, effect.attempt))
        match effect:
            case CreatePods() if one is None:
                self._begin(effect)
            case OpenGate() if one is not None:
                self._open(one, effect.at)
            case DeletePods() if one is not None:
                self._delete(one, effect)
            case ResizePods() if one is not None and not one.is_ending:
                self._slots.resize(one, effect)
                self._due.mark(one.key)

    def acknowledge(self, seen: PodsObservation, at: Instant) -> None:
        """Record that the log has an observation."""
        key = (seen.job_id, seen.attempt)
        one = self.attempts.get(key)
        if one is None:
            return
        match seen:
            case PodsStartedSeen():
                one.started_at = one.started_at or at
                if one.has_begun:
                    self._verdicts.started(one.key[0])
            case ChecksSeen():
                one.found_told.update((result.node, result.check) for result in seen.results)
                one.checks_told = one.checks_told or seen.is_last
            case CheckpointSeen():
                one.checkpoint_told = max(one.checkpoint_told, one.checkpoint_offered or at)
                one.checkpoint_offered = NEVER
            case PodsResizedSeen():
                one.resize, one.resized = None, False
                for pod in one.pods.values():
                    pod.is_late = False
            case PodsExitedSeen():
                self._forget(one, at)
                return
        self._due.mark(key)

    def settle(self, now: Instant) -> None:
        """Evaluate every attempt that changed or is due."""
        while due := self._due.take(now):
            for key in due:
                one = self.attempts.get(key)
                if one is None:
                    continue
                if self.is_synced:
                    self._reconciler.reconcile(one, now)
                self._retell(one)

    def observations(self) -> Iterator[PodsObservation]:
        """Yield unacknowledged observations, oldest first, as of the last `settle`."""
        for key in self._news:
            seen = _next_observation(self.attempts[key], self._context.nodes)
            assert seen is not None, "an attempt with news has an observation"
            yield seen

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self._news)

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        return self._due.next_at()

    def seen(self, view: PodView) -> bool:
        """Handle a new state of a pod. False if it belongs to no attempt."""
        return self._slots.see(view)

    def gone(self, view: PodView) -> None:
        """Handle a deleted pod, given its last state."""
        self._slots.lose(view)

    def synced(self) -> None:
        """Record that all pods were seen: missing ones do not exist."""
        self.is_synced = True
        self._due.mark(*self.attempts)

    def node_lost(self, node: str) -> None:
        """Evaluate ending attempts on a lost node: no kubelet will confirm their end."""
        for key, one in self.attempts.items():
            if one.is_ending and any(pod.slot.node == node for pod in one.pods.values()):
                self._due.mark(key)

    def reset(self) -> None:
        """Forget what was seen, because another process leads."""
        self.is_synced = False
        self._slots.clear()
        self._due.clear()
        self._news.clear()
        for one in self.attempts.values():
            one.state, one.verdict, one.resized, one.awaits_first_step = AttemptState.WANTED, None, False, False
            one.running_at = one.bound_at = one.held_at = one.ended_at = NEVER
            self._slots.empty(one)

    def answered(self, purpose: PodPurpose, outcome: Outcome, now: Instant) -> None:
        """Continue after a call on a pod."""
        key = purpose.pod
        one = self.attempts.get((key.job_id, key.attempt))
        if one is None:
            return
        pod = one.pod_for(key, purpose.number)
        if pod is None:
            self._due.mark(one.key)  # another pod may wait for its key
            return
        match purpose:
            case EndPod():
                self._terminator.answered(one, pod, purpose, outcome, now)
            case OpenPodGate():
                self._gates.answered(one, pod, outcome, now)
            case _:
                self._due.mark(one.key)
                self._creator.answered(one, pod, purpose, outcome, now)

    def outage(self, now: Instant) -> None:
        """Restart deadlines because the API server does not answer."""
        for one in self.attempts.values():
            self._reconciler.put_off(one, now)

    def is_ready(self, key: PodKey, *, uid: str) -> None:
        """Record that the pod has everything it needs to be bound."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and pod.uid == uid and pod.state is PodState.PREPARING:
            pod.state = PodState.READY
            self._due.mark(one.key)

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """Record that the pod cannot get what it needs."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and uid in ("", pod.uid) and pod.state < PodState.BOUND:
            if pod.exists:  # otherwise its object cannot start, which is not the node's fault
                self._context.nodes.turned_away(pod.slot.node, now, why=reason)
            self._verdicts.refuse(one, pod, reason=reason, most=FOR_NODES_MAX if pod.exists else FOR_PODS_MAX)
            self._due.mark(one.key)

    def goes_on(self, attempt: AttemptKey, *, reason: str) -> None:
        """Evaluate an attempt whose pods are ended one by one."""
        one = self.attempts.get(attempt)
        if one is not None:
            self._context.notes.say(f"job {attempt[0]} attempt {attempt[1]}: pods are ended one by one: {reason}")
            self._due.mark(one.key)

    def _begin(self, order: CreatePods) -> None:
        one = self.attempts[(order.job_id, order.attempt)] = LiveAttempt(order)
        self._slots.fill(one)
        self._due.mark(one.key)

    def _open(self, one: LiveAttempt, at: Instant) -> None:
        """Begin the first step of an attempt that is not ending."""
        if one.opened_at:
            return
        one.opened_at = at
        self._verdicts.started(one.key[0])
        if one.is_checking and not one.is_ending:
            one.state, one.bound_at = AttemptState.WANTED, NEVER
            self._slots.checked(one)
        self._due.mark(one.key)

    def _delete(self, one: LiveAttempt, deletion: DeletePods) -> None:
        """End the pods. An end seen before stays; a loss during a stop ends them at once."""
        if one.deletion is None:
            one.verdict = one.verdict or judged(one)
            one.deletion = deletion
        elif deletion.lost_node and not one.deletion.lost_node:
            one.deletion = deletion
        self._due.mark(one.key)

    def _retell(self, one: LiveAttempt) -> None:
        """Update whether the attempt has something to report."""
        if _next_observation(one, self._context.nodes) is None:
            self._news.pop(one.key, None)
        else:
            self._news.setdefault(one.key)

    def _forget(self, one: LiveAttempt, now: Instant) -> None:
        """Forget an attempt whose exit is in the log."""
        for pod in itertools.chain(one.pods.values(), one.leaving):
            self._creator.forget(pod)
            self._gates.forget(pod)
            self._terminator.forget(pod)
            if pod.view is not None and not pod.is_adopted:
                self._leave(pod.view, now)
        self._slots.unhost(one)
        self._context.adopted.forget(one.order)
        if self.is_synced:  # a follower makes no calls; remaining objects go with their owner
            self._context.auxiliary.end(one.working_order, now)
        self._news.pop(one.key, None)
        self._due.drop(one.key)
        del self.attempts[one.key]


def _next_observation(one: LiveAttempt, nodes: NodesSeen) -> PodsObservation | None:
    """Return what to report next: start, checks, checkpoint, resize or exit.

    A deletion overtakes a start that was not reported.
    """
    job_id, attempt = one.key
    if not one.started_at and one.running_at and one.deletion is None:
        return PodsStartedSeen(job_id, attempt, _device_uuids(one, nodes))
    if one.order.preflight is not None and (report := next_report(one)) is not None:
        return report
    if one.started_at and one.checkpoint > one.checkpoint_told:
        one.checkpoint_offered = one.checkpoint
        return CheckpointSeen(job_id, attempt)
    if one.started_at and one.resized and one.resize is not None and not one.is_ending:
        return PodsResizedSeen(job_id, attempt, len(one.resize.slots))
    return one.exited() if one.state is AttemptState.ENDED else None


def _device_uuids(one: LiveAttempt, nodes: NodesSeen) -> tuple[tuple[str, ...], ...]:
    """Return the device uuids of each slot: from the node's description, or from the kubelet; () if unknown.

    Devices of a check pod are only the job's if the node has no others.
    """
    told: list[tuple[str, ...]] = []
    for slot in one.order.slots:
        pod = one.pods[slot.group, slot.replica]
        devices = pod.view.devices if pod.view is not None else ()
        if pod.is_check and len(devices) != nodes.gpus(slot.node):
            devices = ()
        told.append(devices or nodes.uuids(slot.node, slot.devices))
    return tuple(told)
