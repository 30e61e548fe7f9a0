"""Attempts on a real cluster: effects become calls, what is seen of their pods becomes observations.

Everything follows from the attempt as asked and its pods as seen, so that it does not matter which leader made which
part: names are deterministic, and `_advance` asks only for what is missing. Attempts are looked at in batches, after
what was seen and what was told, never per event: a gang of 4,096 pods costs one walk per batch.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from muster.agent.core.cluster import (
    CheckpointSeen,
    CreatePods,
    DeletePods,
    PodsEffect,
    PodsExitedSeen,
    PodsObservation,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.agent.core.kubernetes.belonging import Belonging
from muster.agent.core.kubernetes.ending import Ender
from muster.agent.core.kubernetes.live import NEVER, LiveAttempt, LivePod, judged
from muster.agent.core.kubernetes.making import Maker
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.agent.core.kubernetes.parts import Parts
from muster.agent.core.kubernetes.verdicts import FOR_NODES_MAX, FOR_PODS_MAX, Verdicts
from muster.agent.core.kubernetes.views import PodView
from muster.core import Instant, after
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.job import Slot

LEFTOVER_GRACE_S = 5.0
"""For pods that outlive their gang: servers, workers of a launcher that is done, peers of one that failed."""
_Key = tuple[str, int]


class Gangs:
    """Implements `companions.Watcher`. bind_s: how long a gang may be bound only in part.

    leave: told of objects that outlive their attempt.
    """

    def __init__(self, parts: Parts, leave: Callable[[PodView, Instant], None], *, bind_s: float) -> None:
        self.attempts: dict[_Key, LiveAttempt] = {}
        self.is_synced = False
        """Whether all pods were seen: before, absence means nothing."""
        self._parts = parts
        self._leave = leave
        self._bind_s = bind_s
        self._verdicts = Verdicts(parts)
        self._maker = Maker(parts, self._verdicts, self._touch)
        self._ender = Ender(parts, self._touch)
        self._dirty: dict[_Key, None] = {}
        self._news: dict[_Key, None] = {}
        self._timers: list[tuple[Instant, _Key]] = []
        self._belonging = Belonging(self.attempts, parts.manifests, parts.guests)
        parts.companions.watched_by(self)
        parts.guests.watched_by(self)

    def carry_out(self, effect: PodsEffect) -> None:
        """See `Cluster`."""
        one = self.attempts.get((effect.job_id, effect.attempt))
        match effect:
            case CreatePods() if one is None:
                self._begin(effect)
            case DeletePods() if one is not None:
                self._delete(one, effect)
            case ResizePods() if one is not None and not one.is_ending:
                self._resize(one, effect)

    def acknowledge(self, seen: PodsObservation, at: Instant) -> None:
        """See `Cluster`."""
        key = (seen.job_id, seen.attempt)
        one = self.attempts.get(key)
        if one is None:
            return
        match seen:
            case PodsStartedSeen():
                one.started_at = one.started_at or at
                self._verdicts.started(one.key[0])
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
                if one is not None:
                    self._advance(one, now)

    def observations(self) -> Iterator[PodsObservation]:
        """What is so and not acknowledged, oldest first; as of the last `settle`."""
        for key in self._news:
            seen = self._observation(self.attempts[key])
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
        pod = None if one is None or key is None else self._pod_of(one, key, view)
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
            one.leaving.clear()
            one.bound_at, one.is_begun, one.ended_at, one.running_at = NEVER, False, NEVER, NEVER
            one.verdict, one.resized = None, False
            one.pods = {
                place: self._new_pod(one.order, pod.slot, is_late=pod.is_late) for place, pod in one.pods.items()
            }

    def is_ready(self, key: PodKey, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Watcher`."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None:
            pod.is_ready, pod.is_preparing = True, False
            self._dirty[one.key] = None

    def is_refused(self, key: PodKey, now: Instant, *, reason: str) -> None:
        """See `Watcher`."""
        one = self.attempts.get((key.job_id, key.attempt))
        pod = None if one is None else one.pods.get((key.group, key.replica))
        if one is not None and pod is not None and not pod.is_bound:
            if pod.exists:  # else its object cannot be let go, which is no fault of the node
                self._parts.nodes.turned_away(pod.slot.node, now, why=reason)
            self._verdicts.refuse(one, pod, reason=reason, most=FOR_NODES_MAX if pod.exists else FOR_PODS_MAX)
            self._touch(one, now)

    def _begin(self, order: CreatePods) -> None:
        one = self.attempts[(order.job_id, order.attempt)] = LiveAttempt(order)
        for slot in order.slots:
            self._add_pod(one, slot)
        if self._parts.guests.makes_own_pods(order):
            for view in self._belonging.host(one):
                self.seen(view)
        self._dirty[one.key] = None

    def _new_pod(self, order: CreatePods, slot: Slot, *, is_late: bool) -> LivePod:
        key = PodKey(order.job_id, order.attempt, slot.group, slot.replica)
        pod = LivePod(key, slot, self._parts.manifests.namespace(order), pod_name(key))
        pod.is_guest, pod.is_late = self._parts.guests.makes_own_pods(order), is_late
        return pod

    def _add_pod(self, one: LiveAttempt, slot: Slot, *, is_late: bool = False) -> None:
        """A pod that is wanted. An object of its name may be there: an earlier leader's, but not one that leaves."""
        pod = one.pods[slot.group, slot.replica] = self._new_pod(one.order, slot, is_late=is_late)
        known = self._belonging.views.get((pod.namespace, pod.name))
        is_leaving = known is not None and any(known.uid == other.uid for other in one.leaving)
        if known is not None and known.member is not None and known.member.key == pod.key and not is_leaving:
            pod.see(known)

    def _delete(self, one: LiveAttempt, deletion: DeletePods) -> None:
        """An end that was seen before it stands; a loss while they obey ends them at once."""
        if one.deletion is None:
            one.verdict = one.verdict or judged(one)
            one.deletion = deletion
        elif deletion.lost_node and not one.deletion.lost_node:
            one.deletion = deletion
        self._dirty[one.key] = None

    def _resize(self, one: LiveAttempt, wanted: ResizePods) -> None:
        """Pods that stay where they are stay; one that moves ends and comes anew."""
        places = {(slot.group, slot.replica): slot for slot in wanted.slots}
        for place, pod in tuple(one.pods.items()):
            if places.get(place) != pod.slot:
                one.leaving.append(one.pods.pop(place))
        one.order = replace(one.order, slots=wanted.slots)
        for place, slot in places.items():
            if place not in one.pods:
                self._add_pod(one, slot, is_late=True)
        one.resize, one.resized = wanted, False
        self._dirty[one.key] = None

    def _pod_of(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """Whose object this is: by its uid; one that is known under no uid is that of the place, or leaves it."""
        pod = next((other for other in one.leaving if other.uid == view.uid), one.pods.get((key.group, key.replica)))
        if pod is None:
            return self._stray(one, key, view)
        if pod.uid == view.uid:
            return pod
        if one.ended_at or (pod.is_over and pod.end is not None):
            return None  # made too late, by a call of old: nobody waits for it
        if not pod.uid:
            moves = one.resize is not None and view.node not in ("", pod.slot.node)
            return self._stray(one, key, view) if moves else pod
        return self._anew(one, pod)

    def _stray(self, one: LiveAttempt, key: PodKey, view: PodView) -> LivePod | None:
        """A pod that a resize ends, which was asked of a former leader."""
        if one.ended_at or view.member is None:
            return None
        slot = Slot(group=key.group, replica=key.replica, node=view.node)
        pod = LivePod(key, slot, view.namespace, view.name)
        one.leaving.append(pod)
        return pod

    def _anew(self, one: LiveAttempt, old: LivePod) -> LivePod:
        """The object under this name is another one now: the old pod is gone, and what was done to it is undone."""
        was_running = bool(one.started_at or one.running_at or old.has_run)
        self._maker.forget(old)
        self._ender.forget(old)
        pod = self._new_pod(one.order, old.slot, is_late=old.is_late)
        pod.namespace, pod.name = old.namespace, old.name
        one.pods[old.key.group, old.key.replica] = pod
        if was_running and not old.is_late:
            self._verdicts.roll_back(one, old, reason="it was taken away, and another made under its name")
        return pod

    def _touch(self, one: LiveAttempt, now: Instant, *, after_s: float = 0.0) -> None:
        """Look at it again: with the next `settle`, or after a while."""
        if after_s:
            heapq.heappush(self._timers, (after(now, after_s), one.key))
        else:
            self._dirty[one.key] = None

    def _advance(self, one: LiveAttempt, now: Instant) -> None:
        if not self.is_synced:
            self._retell(one)
            return
        if not one.is_ending:
            self._judge(one, now)
        if one.is_ending:
            self._end(one, now)
        else:
            self._run(one, now)
        self._retell(one)

    def _judge(self, one: LiveAttempt, now: Instant) -> None:
        verdict = judged(one)
        if verdict is None or verdict.outcome is not PodsOutcome.NODE_LOST:
            one.verdict = verdict
        elif not self._verdicts.turned_away(one, now):
            self._verdicts.lost(one, verdict)

    def _run(self, one: LiveAttempt, now: Instant) -> None:
        grace_s = one.resize.grace_s if one.resize is not None else LEFTOVER_GRACE_S
        for pod in one.leaving:
            self._ender.end(one, pod, grace_s=grace_s, now=now, clears=True)
        one.leaving = [pod for pod in one.leaving if not pod.is_gone]  # a name is free when its object is gone
        self._maker.make(one, now)
        if not one.running_at and one.is_whole:
            one.running_at = now
        one.resized = one.resize is not None and one.is_whole and all(pod.is_over for pod in one.leaving)
        self._roll_back_in_part(one, now)
        self._maker.wait_for(one, now)

    def _roll_back_in_part(self, one: LiveAttempt, now: Instant) -> None:
        """A gang that is bound only in part holds nodes for nothing.

        So does one that exists whole and is not bound, or whose pods somebody else does not make. A pod that waits for
        another to leave, or that somebody holds back, has its time.
        """
        unbound = [pod for pod in one.pods.values() if not pod.is_bound and (pod.exists or not pod.is_late)]
        is_awaited = any(pod.is_guest and not pod.exists for pod in unbound)  # its controller may never make it
        is_bound = any(pod.is_bound for pod in one.pods.values())
        is_there = all(pod.exists for pod in unbound)
        if not unbound or not (is_bound or is_there or is_awaited) or any(pod.is_gated for pod in unbound):
            one.bound_at = NEVER
        elif not one.bound_at:
            one.bound_at = now
            self._touch(one, now, after_s=self._bind_s)
        elif now >= after(one.bound_at, self._bind_s):
            self._verdicts.roll_back(one, unbound[0], reason=f"not bound for {self._bind_s:g} s")
            self._dirty[one.key] = None

    def outage(self, now: Instant) -> None:
        """The API server does not answer: what is bound only in part has its time anew."""
        for one in self.attempts.values():
            if one.bound_at:
                one.bound_at = now
                self._touch(one, now, after_s=self._bind_s)

    def _end(self, one: LiveAttempt, now: Instant) -> None:
        grace_s = one.deletion.grace_s if one.deletion is not None else min(LEFTOVER_GRACE_S, one.order.spec.grace_s)
        guests = self._parts.guests
        by_object = guests.makes_own_pods(one.order) and guests.stop(one.order, grace_s=grace_s, now=now)
        left = 0
        for pod in itertools.chain(one.pods.values(), one.leaving):
            left += not self._ender.end(one, pod, grace_s=grace_s, now=now, by_object=by_object)
        if not left and not one.ended_at:
            one.ended_at = now

    def _retell(self, one: LiveAttempt) -> None:
        """Whether there is something to tell of it."""
        if self._observation(one) is None:
            self._news.pop(one.key, None)
        else:
            self._news.setdefault(one.key)

    def _observation(self, one: LiveAttempt) -> PodsObservation | None:
        """The next thing to tell: start, checkpoint, resize, exit. A deletion overtakes a start that was not told."""
        job_id, attempt = one.key
        if not one.started_at and one.running_at and one.deletion is None:
            return PodsStartedSeen(job_id, attempt, self._device_uuids(one))
        if one.started_at and one.checkpoint > one.checkpoint_told:
            one.checkpoint_offered = one.checkpoint
            return CheckpointSeen(job_id, attempt)
        if one.started_at and one.resized and one.resize is not None and not one.is_ending:
            return PodsResizedSeen(job_id, attempt, len(one.resize.slots))
        return one.exited() if one.ended_at else None

    def _device_uuids(self, one: LiveAttempt) -> tuple[tuple[str, ...], ...]:
        """Of each slot: as its node describes the devices that it names, or as the kubelet tells; () if it does not."""
        told: list[tuple[str, ...]] = []
        for slot in one.order.slots:
            pod = one.pods[slot.group, slot.replica]
            devices = pod.view.devices if pod.view is not None else ()
            told.append(devices or self._parts.nodes.uuids(slot.node, slot.devices))
        return tuple(told)

    def _forget(self, one: LiveAttempt, now: Instant) -> None:
        """The log has its exit."""
        for pod in itertools.chain(one.pods.values(), one.leaving):
            self._maker.forget(pod)
            self._ender.forget(pod)
            if pod.view is not None and not pod.is_guest:
                self._leave(pod.view, now)
        self._belonging.unhost(one)
        if self.is_synced:  # who only follows has nobody to ask; what is left then goes with its owner
            self._parts.companions.end(one.order, now)
        self._news.pop(one.key, None)
        self._dirty.pop(one.key, None)
        del self.attempts[one.key]
