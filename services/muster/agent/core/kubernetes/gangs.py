"""Attempts on a real cluster: effects become calls, what is seen of their pods becomes observations.

Everything follows from the attempt as asked and its pods as seen, so that it does not matter which leader made which
part: names are deterministic, and only what is missing is asked for. Attempts are looked at in batches, after what was
seen and what was told, never per event: a gang of 4,096 pods costs one walk per batch.
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
    """Implements `ports.AdoptionWatcher`. bind_s: how long a gang may be bound only in part.

    leave: told of objects that outlive their attempt.
    """

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
        """See `Cluster`."""
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
        """See `Cluster`."""
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
        """Look at every attempt of which something changed, or whose moment has come."""
        while due := self._due.take(now):
            for key in due:
                one = self.attempts.get(key)
                if one is None:
                    continue
                if self.is_synced:
                    self._reconciler.reconcile(one, now)
                self._retell(one)

    def observations(self) -> Iterator[PodsObservation]:
        """What is so and not acknowledged, oldest first; as of the last `settle`."""
        for key in self._news:
            seen = _next_observation(self.attempts[key], self._context.nodes)
            assert seen is not None, "news are what there is to tell"
            yield seen

    @property
    def has_news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._news)

    def next_change(self) -> Instant | None:
        """When `settle` could find something by time alone."""
        return self._due.next_at()

    def seen(self, view: PodView) -> bool:
        """The pod is so. False if it is no pod of an attempt."""
        return self._slots.see(view)

    def gone(self, view: PodView) -> None:
        """The pod, as it was last seen, is no more."""
        self._slots.lose(view)

    def synced(self) -> None:
        """All pods were seen: what is not among them is not there."""
        self.is_synced = True
        self._due.mark(*self.attempts)

    def node_lost(self, node: str) -> None:
        """A node was lost, or is gone: pods there that are to end wait for no kubelet."""
        for key, one in self.attempts.items():
            if one.is_ending and any(pod.slot.node == node for pod in one.pods.values()):
                self._due.mark(key)

    def reset(self) -> None:
        """Another leads: nothing is under way here, and nothing is known of pods until they are seen again."""
        self.is_synced = False
        self._slots.clear()
        self._due.clear()
        self._news.clear()
        for one in self.attempts.values():
            one.state, one.verdict, one.resized, one.awaits_first_step = AttemptState.WANTED, None, False, False
            one.running_at = one.bound_at = one.held_at = one.ended_at = NEVER
            self._slots.empty(one)

    def answered(self, purpose: PodPurpose, outcome: Outcome, now: Instant) -> None:
        """See `Asker`."""
        key = purpose.pod
        one = self.attempts.get((key.job_id, key.attempt))
        if one is None:
            return
        pod = one.pod_for(key, purpose.number)
        if pod is None:
            self._due.mark(one.key)  # another one may have waited until its key is free
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
        """The API server does not answer: deadlines of what only it can do begin anew."""
        for one in self.attempts.values():
            self._reconciler.put_off(one, now)

    def is_ready(self, key: PodKey, *, uid: str) -> None:
        """See `Watcher`."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and pod.uid == uid and pod.state is PodState.PREPARING:
            pod.state = PodState.READY
            self._due.mark(one.key)

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """See `Watcher`."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and uid in ("", pod.uid) and pod.state < PodState.BOUND:
            if pod.exists:  # else its object cannot be let go, which is no fault of the node
                self._context.nodes.turned_away(pod.slot.node, now, why=reason)
            self._verdicts.refuse(one, pod, reason=reason, most=FOR_NODES_MAX if pod.exists else FOR_PODS_MAX)
            self._due.mark(one.key)

    def goes_on(self, attempt: AttemptKey, *, reason: str) -> None:
        """See `AdoptionWatcher`."""
        one = self.attempts.get(attempt)
        if one is not None:
            self._context.notes.say(f"job {attempt[0]} attempt {attempt[1]}: pods are ended one by one: {reason}")
            self._due.mark(one.key)

    def _begin(self, order: CreatePods) -> None:
        one = self.attempts[(order.job_id, order.attempt)] = LiveAttempt(order)
        self._slots.fill(one)
        self._due.mark(one.key)

    def _open(self, one: LiveAttempt, at: Instant) -> None:
        """Its first step may begin. One that ends already goes on ending."""
        if one.opened_at:
            return
        one.opened_at = at
        self._verdicts.started(one.key[0])
        if one.is_checking and not one.is_ending:
            one.state, one.bound_at = AttemptState.WANTED, NEVER
            self._slots.checked(one)
        self._due.mark(one.key)

    def _delete(self, one: LiveAttempt, deletion: DeletePods) -> None:
        """An end that was seen before it stands; a loss while they obey ends them at once."""
        if one.deletion is None:
            one.verdict = one.verdict or judged(one)
            one.deletion = deletion
        elif deletion.lost_node and not one.deletion.lost_node:
            one.deletion = deletion
        self._due.mark(one.key)

    def _retell(self, one: LiveAttempt) -> None:
        """Whether there is something to tell of it."""
        if _next_observation(one, self._context.nodes) is None:
            self._news.pop(one.key, None)
        else:
            self._news.setdefault(one.key)

    def _forget(self, one: LiveAttempt, now: Instant) -> None:
        """The log has its exit."""
        for pod in itertools.chain(one.pods.values(), one.leaving):
            self._creator.forget(pod)
            self._gates.forget(pod)
            self._terminator.forget(pod)
            if pod.view is not None and not pod.is_adopted:
                self._leave(pod.view, now)
        self._slots.unhost(one)
        self._context.adopted.forget(one.order)
        if self.is_synced:  # who only follows has nobody to ask; what is left then goes with its owner
            self._context.auxiliary.end(one.working_order, now)
        self._news.pop(one.key, None)
        self._due.drop(one.key)
        del self.attempts[one.key]


def _next_observation(one: LiveAttempt, nodes: NodesSeen) -> PodsObservation | None:
    """Return what to report next: start, checks, checkpoint, resize or exit.

    A deletion overtakes a start that was not told.
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
    """Of each slot: as its node describes the devices that it names, or as the kubelet tells; () if it does not.

    What the kubelet gave a pod that only checks, it may not give the job's, unless that was all that the node has.
    """
    told: list[tuple[str, ...]] = []
    for slot in one.order.slots:
        pod = one.pods[slot.group, slot.replica]
        devices = pod.view.devices if pod.view is not None else ()
        if pod.is_check and len(devices) != nodes.gpus(slot.node):
            devices = ()
        told.append(devices or nodes.uuids(slot.node, slot.devices))
    return tuple(told)
