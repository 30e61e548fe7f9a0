"""End pods: with grace, within disruption budgets, and at once where no kubelet answers.

Pods of Muster without an attempt are orphans. Ended ones are kept for a while for their output, then deleted, the
oldest first if there are too many; check pods are not kept. A running one - created too late by a former leader - is
deleted at once.
"""

import heapq
import math
from dataclasses import dataclass, field, replace

from muster.agent.core.kubernetes.calls import Delete, Done, Evict, Kind, Outcome, Refused
from muster.agent.core.kubernetes.context import BindPod, Context, CreatePod, EndPod, Notes, ReadPod
from muster.agent.core.kubernetes.live import LiveAttempt, LivePod, PodState
from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Instant, after, seconds_between

GRACE_S_LEAST = 1
"""Shortest grace: 0 would delete the object without waiting for its processes."""
EVICTION_SHARE = 0.5
"""Part of the grace in which a disruption budget may delay a preemption; the pod gets the rest as notice."""
EVICT_AGAIN_S = 1.0
REFUSED_AGAIN_S = 15.0
"""Before a refused deletion is tried again: a permission may be granted."""
KEPT_MAX = 2_000
"""Ended pods that are kept: far below the 12,500 of the cluster's own garbage collection."""
_Name = tuple[str, str]


class Terminator:
    """Ends pods of attempts."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def end(
        self,
        one: LiveAttempt,
        pod: LivePod,
        *,
        grace_s: float,
        now: Instant,
        by_object: bool = False,
        clears: bool = False,
    ) -> bool:
        """End the pod; may be repeated. Return True once none of its processes runs or will run.

        `by_object`: the pod's object ends it, so the pod itself is left alone. `clears`: its name is needed, so that
        its object must go, too.
        """
        if not pod.is_over and not pod.exists:
            self._unmake(pod)
        if pod.is_over:
            return self._ended(one, pod, now, clears=clears)
        if pod.exists:
            self._context.worklist.cancel(BindPod(pod.key))
            if not by_object:
                self._tell(one, pod, grace_s=grace_s, now=now)
        return False

    def _ended(self, one: LiveAttempt, pod: LivePod, now: Instant, *, clears: bool) -> bool:
        """Mark a pod as ended; but a pending creation may create it again."""
        if not self._context.worklist.cancel(CreatePod(pod.key)):
            return False
        if not pod.is_released:
            pod.is_released = True
            self._context.auxiliary.release(one.order_of(is_check=pod.is_check), pod.slot, now)
        if clears and pod.exists and pod.ending_s is None and pod.view is not None and not pod.view.ends_at:
            self._ask(pod, Delete(Kind.PODS, pod.namespace, pod.name, pod.uid, GRACE_S_LEAST), GRACE_S_LEAST)
        return True

    def forget(self, pod: LivePod) -> None:
        """Cancel the calls of a pod."""
        self._context.worklist.cancel(EndPod(pod.key))

    def _unmake(self, pod: LivePod) -> None:
        """End an unseen pod: cancel a waiting creation, or wait for a pending one."""
        worklist = self._context.worklist
        if worklist.tries(CreatePod(pod.key)):
            pod.doubt()
        if not worklist.cancel(CreatePod(pod.key)) or not worklist.cancel(ReadPod(pod.key)):
            return
        if pod.state is PodState.WANTED:
            pod.lose()
            return
        call = Delete(Kind.PODS, pod.namespace, pod.name, grace_s=GRACE_S_LEAST)
        worklist.ask(EndPod(pod.key, pod.number), call)

    def _tell(self, one: LiveAttempt, pod: LivePod, *, grace_s: float, now: Instant) -> None:
        """Delete or evict the pod, unless that is requested with the same urgency."""
        deletion, view = one.deletion, pod.view
        lost_node = deletion.lost_node if deletion is not None else ""
        is_lost = pod.slot.node == lost_node or self._context.nodes.is_lost(pod.slot.node)
        wanted_s = 0 if is_lost else max(GRACE_S_LEAST, math.ceil(0.0 if lost_node else grace_s))
        if view is not None and view.ends_at and view.grace_s <= wanted_s:
            pod.ending_s = view.grace_s if pod.ending_s is None else pod.ending_s
            return
        if pod.ending_s is not None and pod.ending_s <= wanted_s:
            return
        if deletion is not None and deletion.evict and wanted_s > GRACE_S_LEAST and pod.state is PodState.BOUND:
            spent_s = max(0.0, seconds_between(deletion.at, now))
            if spent_s < grace_s * EVICTION_SHARE:
                self._ask(pod, Evict(pod.namespace, pod.name, pod.uid, wanted_s), wanted_s)
                return
            wanted_s = max(GRACE_S_LEAST, math.ceil(grace_s - spent_s))
        self._ask(pod, Delete(Kind.PODS, pod.namespace, pod.name, pod.uid, wanted_s), wanted_s)

    def _ask(self, pod: LivePod, call: Delete | Evict, grace_s: int) -> None:
        self._context.worklist.ask(EndPod(pod.key, pod.number, grace_s), call, is_urgent=True)

    def answered(self, one: LiveAttempt, pod: LivePod, purpose: EndPod, outcome: Outcome, now: Instant) -> None:
        """Continue after a call of this class."""
        grace_s = purpose.grace_s
        if grace_s is None:  # what may have been made, and was never bound, is not there
            pod.lose()
            self._context.due.mark(one.key)
            return
        match outcome:
            case Done():
                pod.ending_s = grace_s if pod.ending_s is None else min(pod.ending_s, grace_s)
            case Refused(code=404):
                pod.lose()
            case Refused(code=409) if "uid" in outcome.message.lower():
                pod.lose()  # the object of this uid is no more
            case Refused(code=429) | Refused(code=409):
                self._context.due.mark_at(
                    one.key, after(now, EVICT_AGAIN_S)
                )  # a disruption budget, or its status changed meanwhile
                return
            case Refused() if one.deletion is not None and one.deletion.evict:
                self._context.notes.say(f"pod {pod.name} deleted because it cannot be evicted: {outcome.message}")
                one.deletion = replace(one.deletion, evict=False)
            case Refused():
                self._context.notes.refused += 1
                self._context.notes.say(f"cannot delete pod {pod.name}: {outcome.message}")
                self._context.due.mark_at(one.key, after(now, REFUSED_AGAIN_S))
                return
            case _:
                pass  # it was canceled without a record: it is sent again
        self._context.due.mark(one.key)


@dataclass(frozen=True, slots=True)
class DeleteOrphan(Purpose):
    """Delete an orphaned pod."""

    where: _Name
    uid: str = field(default="", compare=False)


class Orphans:
    """Deletes orphaned pods; ended ones after `keep_s`."""

    def __init__(self, worklist: Worklist, notes: Notes, *, keep_s: float) -> None:
        self._worklist = worklist
        worklist.serve(self, DeleteOrphan)
        self._notes = notes
        self._keep_s = keep_s
        self._pods: dict[_Name, PodView] = {}
        self._due: list[tuple[Instant, _Name, str]] = []
        self._asked: set[_Name] = set()  # whose deletion is under way

    def __len__(self) -> int:
        return len(self._pods)

    def seen(self, view: PodView, now: Instant) -> None:
        """Handle a new state of an orphaned pod."""
        known = self._pods.get(view.key)
        if view.ends_at:
            self._drop(view.key)
            return
        self._pods[view.key] = view
        if known is not None and known.uid == view.uid and (known.end is None) == (view.end is None):
            return
        self._notes.orphans += view.end is None
        self._put(view, now)

    def gone(self, key: tuple[str, str]) -> None:
        """Handle a deleted pod."""
        if key in self._pods:
            self._drop(key)
            self._worklist.cancel(DeleteOrphan(key))

    def settle(self, now: Instant) -> None:
        """Delete the pods that are due. Only once all pods were seen."""
        while self._due and (self._due[0][0] <= now or len(self._pods) - len(self._asked) > KEPT_MAX):
            _, key, uid = heapq.heappop(self._due)
            view = self._pods.get(key)
            if view is not None and view.uid == uid:
                self._delete(view)

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        return self._due[0][0] if self._due else None

    def reset(self) -> None:
        """Forget everything, because another process leads."""
        self._pods.clear()
        self._due.clear()
        self._asked.clear()

    def _put(self, view: PodView, now: Instant) -> None:
        is_check = view.member is not None and view.member.key.is_check  # what it found, the log has
        due = now if view.end is None or is_check else after(view.end.finished_at or now, self._keep_s)
        heapq.heappush(self._due, (due, view.key, view.uid))

    def _drop(self, key: _Name) -> None:
        self._pods.pop(key, None)
        self._asked.discard(key)

    def _delete(self, view: PodView) -> None:
        self._asked.add(view.key)
        call = Delete(Kind.PODS, view.namespace, view.name, view.uid, GRACE_S_LEAST)
        self._worklist.ask(DeleteOrphan(view.key, view.uid), call)

    def answered(self, purpose: DeleteOrphan, outcome: Outcome, now: Instant) -> None:
        """Continue after a deletion."""
        where, uid = purpose.where, purpose.uid
        self._asked.discard(where)
        known = self._pods.get(where)
        if known is not None and known.uid != uid:  # made anew meanwhile: its turn came, and its name was taken
            self._put(known, now)
            return
        match outcome:
            case Done() | Refused(code=404) | Refused(code=409):
                self._drop(where)
            case _ if known is not None:
                heapq.heappush(self._due, (after(now, REFUSED_AGAIN_S), where, uid))
