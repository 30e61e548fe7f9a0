"""Attempts on a real cluster: effects become calls, what is seen of their pods becomes observations.

Everything follows from the attempt as asked and its pods as seen, so that it does not matter which leader made which
part: names are deterministic, and only what is missing is asked for. Attempts are looked at in batches, after what was
seen and what was told, never per event: a gang of 4,096 pods costs one walk per batch.
"""

import heapq
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
from muster.agent.core.kubernetes.context import EndPod, OpenPodGate, Parts, PodPurpose
from muster.agent.core.kubernetes.live import NEVER, AttemptState, LiveAttempt, PodState, judged
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.news import news_of
from muster.agent.core.kubernetes.pod_creator import Maker
from muster.agent.core.kubernetes.preflight import Gates
from muster.agent.core.kubernetes.reconciler import Course
from muster.agent.core.kubernetes.slot_assigner import Belonging, Places
from muster.agent.core.kubernetes.terminator import Ender
from muster.agent.core.kubernetes.verdicts import FOR_NODES_MAX, FOR_PODS_MAX, Verdicts
from muster.agent.core.kubernetes.views import PodView
from muster.core import Instant, after

_Key = tuple[str, int]


class Gangs:
    """Implements `companions.GuestWatcher`. bind_s: how long a gang may be bound only in part.

    leave: told of objects that outlive their attempt.
    """

    def __init__(self, parts: Parts, leave: Callable[[PodView, Instant], None], *, bind_s: float) -> None:
        self.attempts: dict[_Key, LiveAttempt] = {}
        self.is_synced = False
        """Whether all pods were seen: before, absence means nothing."""
        self._parts = parts
        self._leave = leave
        self._dirty: dict[_Key, None] = {}
        self._news: dict[_Key, None] = {}
        self._timers: list[tuple[Instant, _Key]] = []
        self._belonging = Belonging(self.attempts, parts.manifests, parts.guests)
        self._verdicts = Verdicts(parts)
        self._maker = Maker(parts, self._verdicts, self._touch)
        self._ender = Ender(parts, self._touch)
        self._gates = Gates(parts, self._touch)
        self._places = Places(parts, self._belonging, self._verdicts, self._maker, self._ender)
        self._course = Course(
            parts,
            self._verdicts,
            self._maker,
            self._ender,
            self._touch,
            gates=self._gates,
            gather=self._host,
            bind_s=bind_s,
        )
        parts.worklist.serve(self, PodPurpose)
        parts.companions.watched_by(self)
        parts.guests.watched_by(self)

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
                self._places.resize(one, effect)
                self._dirty[one.key] = None

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
        self._dirty[key] = None

    def settle(self, now: Instant) -> None:
        """Look at every attempt of which something changed, or whose moment has come."""
        while self._timers and self._timers[0][0] <= now:
            self._dirty[heapq.heappop(self._timers)[1]] = None
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for key in dirty:
                one = self.attempts.get(key)
                if one is None:
                    continue
                if self.is_synced:
                    self._course.advance(one, now)
                self._retell(one)

    def observations(self) -> Iterator[PodsObservation]:
        """What is so and not acknowledged, oldest first; as of the last `settle`."""
        for key in self._news:
            seen = news_of(self.attempts[key], self._parts.nodes)
            assert seen is not None, "news are what there is to tell"
            yield seen

    @property
    def has_news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._news)

    def next_change(self) -> Instant | None:
        """When `settle` could find something by time alone."""
        if self._dirty:
            return NEVER
        return self._timers[0][0] if self._timers else None

    def seen(self, view: PodView) -> bool:
        """The pod is so. False if it is no pod of an attempt."""
        self._belonging.views[view.key] = view
        key = self._belonging.key_of(view)
        one = None if key is None else self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None or key is None else self._places.pod_of(one, key, view)
        if one is None or pod is None:
            return False
        pod.see(view)
        one.checkpoint = max(one.checkpoint, view.checkpointed_at)
        self._dirty[one.key] = None
        return True

    def gone(self, view: PodView) -> bool:
        """The pod, as it was last seen, is no more."""
        key = self._belonging.lose(view)
        one = None if key is None else self.attempts.get((key.job_id, key.attempt))
        if one is None or key is None:
            return False
        there = one.pods.get((key.group, key.replica))
        for pod in (*one.leaving, *((there,) if there is not None else ())):
            if pod.uid == view.uid:
                pod.lose()
                self._dirty[one.key] = None
                return True
        return False

    def synced(self) -> None:
        """All pods were seen: what is not among them is not there."""
        self.is_synced = True
        self._dirty.update(dict.fromkeys(self.attempts))

    def node_lost(self, node: str) -> None:
        """A node was lost, or is gone: pods there that are to end wait for no kubelet."""
        for key, one in self.attempts.items():
            if one.is_ending and any(pod.slot.node == node for pod in one.pods.values()):
                self._dirty[key] = None

    def reset(self) -> None:
        """Another leads: nothing is under way here, and nothing is known of pods until they are seen again."""
        self.is_synced = False
        self._belonging.clear()
        self._dirty.clear()
        self._news.clear()
        self._timers.clear()
        for one in self.attempts.values():
            one.state, one.verdict, one.resized, one.awaits_first_step = AttemptState.WANTED, None, False, False
            one.running_at = one.bound_at = one.held_at = one.ended_at = NEVER
            was_checking = one.is_checking
            self._places.empty(one)
            if was_checking and not one.is_checking:
                self._host(one)

    def answered(self, purpose: PodPurpose, outcome: Outcome, now: Instant) -> None:
        """See `Asker`."""
        key = purpose.pod
        one = self.attempts.get((key.job_id, key.attempt))
        if one is None:
            return
        pod = one.pod_for(key, purpose.number)
        if pod is None:
            self._touch(one, now)  # another one may have waited until its key is free
            return
        match purpose:
            case EndPod():
                self._ender.answered(one, pod, purpose, outcome, now)
            case OpenPodGate():
                self._gates.answered(one, pod, outcome, now)
            case _:
                self._touch(one, now)
                self._maker.answered(one, pod, purpose, outcome, now)

    def outage(self, now: Instant) -> None:
        """The API server does not answer: deadlines of what only it can do begin anew."""
        for one in self.attempts.values():
            self._course.put_off(one, now)

    def is_ready(self, key: PodKey, now: Instant, *, uid: str) -> None:  # noqa: ARG002 - the port
        """See `Watcher`."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and pod.uid == uid and pod.state is PodState.PREPARING:
            pod.state = PodState.READY
            self._dirty[one.key] = None

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """See `Watcher`."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and uid in ("", pod.uid) and pod.state < PodState.BOUND:
            if pod.exists:  # else its object cannot be let go, which is no fault of the node
                self._parts.nodes.turned_away(pod.slot.node, now, why=reason)
            self._verdicts.refuse(one, pod, reason=reason, most=FOR_NODES_MAX if pod.exists else FOR_PODS_MAX)
            self._touch(one, now)

    def goes_on(self, attempt: _Key, now: Instant, *, reason: str) -> None:
        """See `GuestWatcher`."""
        one = self.attempts.get(attempt)
        if one is not None:
            self._parts.notes.say(f"job {attempt[0]} attempt {attempt[1]}: pods are ended one by one: {reason}")
            self._touch(one, now)

    def _begin(self, order: CreatePods) -> None:
        one = self.attempts[(order.job_id, order.attempt)] = LiveAttempt(order)
        self._places.fill(one)
        if not one.is_checking:
            self._host(one)
        self._dirty[one.key] = None

    def _host(self, one: LiveAttempt) -> None:
        """Where others make its pods, those that are there are its, and those that come."""
        if self._parts.guests.makes_own_pods(one.order):
            for view in self._belonging.host(one):
                self.seen(view)

    def _open(self, one: LiveAttempt, at: Instant) -> None:
        """Its first step may begin. One that ends already goes on ending."""
        if one.opened_at:
            return
        one.opened_at = at
        self._verdicts.started(one.key[0])
        if one.is_checking and not one.is_ending:
            self._places.checked(one)
            one.state, one.bound_at = AttemptState.WANTED, NEVER
            self._host(one)
        self._dirty[one.key] = None

    def _delete(self, one: LiveAttempt, deletion: DeletePods) -> None:
        """An end that was seen before it stands; a loss while they obey ends them at once."""
        if one.deletion is None:
            one.verdict = one.verdict or judged(one)
            one.deletion = deletion
        elif deletion.lost_node and not one.deletion.lost_node:
            one.deletion = deletion
        self._dirty[one.key] = None

    def _touch(self, one: LiveAttempt, now: Instant, *, after_s: float = 0.0) -> None:
        """Look at it again: with the next `settle`, or after a while."""
        if after_s:
            heapq.heappush(self._timers, (after(now, after_s), one.key))
        else:
            self._dirty[one.key] = None

    def _retell(self, one: LiveAttempt) -> None:
        """Whether there is something to tell of it."""
        if news_of(one, self._parts.nodes) is None:
            self._news.pop(one.key, None)
        else:
            self._news.setdefault(one.key)

    def _forget(self, one: LiveAttempt, now: Instant) -> None:
        """The log has its exit."""
        for pod in itertools.chain(one.pods.values(), one.leaving):
            self._maker.forget(pod)
            self._gates.forget(pod)
            self._ender.forget(pod)
            if pod.view is not None and not pod.is_guest:
                self._leave(pod.view, now)
        self._belonging.unhost(one)
        self._parts.guests.forget(one.order)
        if self.is_synced:  # who only follows has nobody to ask; what is left then goes with its owner
            self._parts.companions.end(one.working_order, now)
        self._news.pop(one.key, None)
        self._dirty.pop(one.key, None)
        del self.attempts[one.key]
