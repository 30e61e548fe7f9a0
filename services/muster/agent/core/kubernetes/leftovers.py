"""Pods of Muster that belong to no attempt any more.

One that ended is kept for a while, so that people can read its output, and then deleted, the oldest first where there
are too many; one that only checked is not kept. One that did not end is an orphan - a former leader made it too late -
and is deleted at once.
"""

import heapq
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.calls import Delete, Done, Kind, Outcome, Refused
from muster.agent.core.kubernetes.ending import GRACE_S_LEAST, REFUSED_AGAIN_S
from muster.agent.core.kubernetes.parts import Notes
from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Instant, after

KEPT_MAX = 2_000
"""Ended pods that are kept: far below the 12,500 at which the cluster's own garbage collection begins."""
_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DeleteLeftover(Purpose):
    """Delete an orphaned pod."""

    where: _Name
    uid: str = field(default="", compare=False)


class Leftovers:
    """keep_s: an ended pod stays so long."""

    def __init__(self, worklist: Worklist, notes: Notes, *, keep_s: float) -> None:
        self._worklist = worklist
        worklist.serve(self, DeleteLeftover)
        self._notes = notes
        self._keep_s = keep_s
        self._pods: dict[_Name, PodView] = {}
        self._due: list[tuple[Instant, _Name, str]] = []
        self._asked: set[_Name] = set()  # whose deletion is under way

    def __len__(self) -> int:
        return len(self._pods)

    def seen(self, view: PodView, now: Instant) -> None:
        """A pod of ours that belongs to no attempt is so."""
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
        """It is no more."""
        if key in self._pods:
            self._drop(key)
            self._worklist.cancel(DeleteLeftover(key))

    def settle(self, now: Instant) -> None:
        """Ask for the deletion of what is due. Only when all pods were seen."""
        while self._due and (self._due[0][0] <= now or len(self._pods) - len(self._asked) > KEPT_MAX):
            _, key, uid = heapq.heappop(self._due)
            view = self._pods.get(key)
            if view is not None and view.uid == uid:
                self._delete(view)

    def next_change(self) -> Instant | None:
        """When `settle` could find something by time alone."""
        return self._due[0][0] if self._due else None

    def reset(self) -> None:
        """Another leads."""
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
        self._worklist.ask(DeleteLeftover(view.key, view.uid), call)

    def answered(self, purpose: DeleteLeftover, outcome: Outcome, now: Instant) -> None:
        """See `Asker`."""
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
