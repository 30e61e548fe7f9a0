"""Fold workloads, and decide what follows from their objects.

An unknown object that asks to run becomes `submit-requested`; an invalid one `rejected`; one that is gone while its job
lives `cancel-requested`; one that shows the end of its job is `settled`. Objects come from watches, so absence counts
only for kinds that were read completely.
"""

from collections.abc import Iterator

from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.workload_values import Unfit, WorkloadKind, WorkloadPolicy, WorkloadView
from muster.agent.core.workloads import records
from muster.agent.core.workloads.claim_templates import CLAIM_ONLY, NO_CLAIM, Templates, TemplateView
from muster.agent.core.workloads.log import SOON_S, WorkloadLog
from muster.agent.core.workloads.pod_gangs import PodGangs
from muster.agent.core.workloads.records import Workload
from muster.core import Draft, Fact, Instant, after
from muster.schemas.facts.control import ClusterDescribed
from muster.schemas.job import JobSpec
from muster.schemas.registry import STATE_NAME

DRAFTS_MAX = 500
"""Drafts of one decision; the rest follows with the next."""


class Workloads:
    """Workloads: the log's state (`log`), and objects as seen (`views`).

    `changed`: uids to show again, or that are gone; the writer removes them. `watched`: kinds besides pods.
    `takes_pods`: whether ordinary pods may ask; otherwise they are ignored. `gangs`: ordinary pods. `claims`: whether
    GPUs come by claims, None while unknown. `templates`: claim templates.
    """

    def __init__(self, policy: WorkloadPolicy) -> None:
        self.policy = policy
        self.views: dict[str, WorkloadView] = {}
        self.log = WorkloadLog(self.views)
        self.records = self.log.records
        self.rejected = self.log.rejected
        self.changed: dict[str, None] = {}
        self.claims: bool | None = None
        self.takes_pods = True
        self.watched: tuple[WorkloadKind, ...] = ()
        self.gangs = PodGangs(policy, self.log.members_of)
        self.templates = Templates()
        self._now = Instant(0)
        self._open: dict[str, None] = {}
        self._read: set[WorkloadKind] = set()
        self._is_all_read = False

    def apply(self, fact: Fact) -> bool:
        """Fold one fact. False if it fits no state."""
        self._now = max(self._now, fact.time)
        if fact.kind == "cluster" and fact.name in ("described", STATE_NAME):
            return self._described(fact)
        uid = self.log.apply(fact)
        if uid and (uid in self.records or uid not in self.log.settled):
            self._touch(uid)
        elif uid:
            self._open.pop(uid, None)
            if uid in self.views:  # else the status writer must still learn that it is gone
                self.changed.pop(uid, None)
        return uid is not None

    def see(self, view: WorkloadView) -> bool:
        """Handle a new state of an object; True if something may follow."""
        record = self.records.get(view.uid)
        if record is not None and record.is_refused and view.uid not in self.views:
            self.log.refusals.look_at(record)
        self.views[view.uid] = view
        self._open[view.uid] = None
        if view.uid in self.records or view.uid in self.rejected or self.waits_for(view):
            self.changed[view.uid] = None
        return self._follows(view.uid)

    def lose(self, uid: str) -> bool:
        """Handle a deleted object; True if something may follow."""
        view = self.views.pop(uid, None)
        if view is None:
            return False
        self.templates.forget_waiting(uid, view)
        self.changed[uid] = None
        self._open[uid] = None
        return uid in self.records

    @property
    def has_news(self) -> bool:
        """Return whether `decide` may have drafts."""
        return bool(self._open)

    def see_pod(self, view: PodView) -> None:
        """Handle a new state of a pod, which may ask to run, alone or in a gang."""
        if not self.takes_pods or view.adopted is None:
            return
        for workload in self.gangs.see(view):
            self.see(workload)
            for member in workload.members[1:]:  # while the gang was not whole they were seen one by one
                if self.views.pop(member, None) is not None:
                    self._open.pop(member, None)
                    self.changed[member] = None

    def lose_pod(self, uid: str) -> None:
        """Handle a deleted pod."""
        match self.gangs.lose(uid):
            case WorkloadView() as workload:
                self.see(workload)
            case str() as lead:
                self.lose(lead)
            case None:
                pass

    def waits_for(self, view: WorkloadView) -> str:
        """Return why the object asks for nothing yet; "" if it asks, or asked."""
        lacks = self.templates.lacks(view) if self.claims and self._is_all_read else ""
        if not lacks or view.uid in self.records:
            return view.note
        return f"it waits until ResourceClaimTemplate {view.namespace}/{lacks} is there"

    def see_template(self, view: TemplateView) -> None:
        """Handle a ResourceClaimTemplate, for which objects may wait."""
        self._open.update(dict.fromkeys(self.templates.see(view)))

    def all_read(self) -> None:
        """Record that all objects of the watched kinds, and all pods if they count, were seen."""
        self._is_all_read = True
        for kind in (*self.watched, *((WorkloadKind.POD,) if self.takes_pods else ())):
            self.read(kind)
        self.changed.update(dict.fromkeys(self.templates.waiting()))

    def read(self, kind: WorkloadKind) -> None:
        """Record that all objects of this kind were seen: missing ones of the log are gone."""
        self._read.add(kind)
        for uid, record in self.records.items():
            if record.asked.origin.kind == kind.value:
                self._open[uid] = None

    def forget_views(self) -> None:
        """Forget what was seen, because another process leads."""
        self.views.clear()
        self.gangs.clear()
        self.templates.clear()
        self.log.refusals.forget_views()
        self._read.clear()
        self._is_all_read = False
        self.changed.clear()
        self._open.clear()

    def next_change(self) -> Instant | None:
        """Return when `decide` could answer differently by time alone."""
        return self.log.refusals.next_change(self._may_be_asked_again)

    def decide(self, now: Instant) -> list[Draft]:
        """Return missing facts; the same until they are folded."""
        self._now = max(self._now, now)
        self._open.update(dict.fromkeys(self.log.refusals.come_due(self._now)))
        drafts: list[Draft] = []
        for uid in tuple(self._open):
            draft = self._answer(uid)
            if draft is None:
                del self._open[uid]
                continue
            drafts.append(draft)
            if len(drafts) >= DRAFTS_MAX:
                break
        return drafts

    def snapshot(self) -> Iterator[Draft]:
        """Yield the open workloads for a checkpoint."""
        return self.log.snapshot()

    def _follows(self, uid: str) -> bool:
        """Return whether `decide` has drafts for the object."""
        if self._answer(uid) is not None:
            return True
        self._open.pop(uid, None)
        return False

    def _answer(self, uid: str) -> Draft | None:
        record, view = self.records.get(uid), self.views.get(uid)
        if record is None:
            return None if view is None else self._taken_up(view)
        if record.is_refused:
            return self._asked_again(record, view) or self._settling(record, view)
        if record.is_over:
            return self._settling(record, view)
        if record.cancelled or not record.standing.accepted:
            return None
        if view is None:
            return records.cancel(record, f"{record.asked.origin.title} is gone") if self._is_read(record) else None
        why = records.why_cancel(record, view)
        return records.cancel(record, why) if why else None

    def _taken_up(self, view: WorkloadView) -> Draft | None:
        """Return the request of an unknown object."""
        if view.deleting or view.finished or view.uid in self.log.settled:
            return None
        match self._asks(view):
            case None:
                return None
            case Unfit() as unfit:
                return self._rejection(view, unfit)
            case JobSpec() as spec:
                return self._submit(view, spec)

    def _submit(self, view: WorkloadView, spec: JobSpec) -> Draft | None:
        found = records.submit_request(self.policy, view, spec)
        return self._rejection(view, found) if isinstance(found, Unfit) else found

    def _asked_again(self, record: Workload, view: WorkloadView | None) -> Draft | None:
        """Return another request of a refused object that is due or has changed."""
        if view is None or view.deleting or view.finished:
            return None
        asks = record.asked.spec if view.asks is None else self._asks(view)
        if not isinstance(asks, JobSpec):
            return None
        soon = after(Instant(record.refused_at), SOON_S)
        if self._now < (record.again_at if asks == record.asked.spec else min(record.again_at, soon)):
            return None
        return self._submit(view, asks)

    def _may_be_asked_again(self, uid: str) -> bool:
        record = self.records.get(uid)
        return record is not None and record.is_refused and uid in self.views

    def _asks(self, view: WorkloadView) -> JobSpec | Unfit | None:
        """Return whether requests wait until it is known how GPUs are allocated here."""
        asks = view.asks
        if not isinstance(asks, JobSpec) or not view.kind.makes_pods:
            return asks
        if self.claims is None:
            return None
        if not view.templates:
            return NO_CLAIM if self.claims and asks.gpu_milli_total else asks
        return self.templates.asked(view, asks) if self.claims else CLAIM_ONLY

    def _rejection(self, view: WorkloadView, unfit: Unfit) -> Draft | None:
        """Return `rejected` once for each generation and reason: labels change without a new generation."""
        said, before = self.rejected.get(view.uid, (-1, None))
        shows_it = before is None and view.shown.generation >= view.generation > 0
        if shows_it or (said >= view.generation and before == unfit):
            return None
        return records.rejection(self.policy, view, unfit)

    def _settling(self, record: Workload, view: WorkloadView | None) -> Draft | None:
        """Return `settled` once the object shows the end, or is gone. A refused one may be submitted again."""
        if view is None and not self._is_read(record):
            return None
        may_come = record.is_refused and view is not None and not view.finished
        if view is not None and not view.deleting and (may_come or not view.shown.is_final):
            return None
        return records.settlement(record, is_gone=view is None)

    def _is_read(self, record: Workload) -> bool:
        return record.asked.origin.kind in {kind.value for kind in self._read}

    def _touch(self, uid: str) -> None:
        """Forget what only a leader needs, on a follower."""
        if uid in self.views:
            self.changed[uid] = None
        if uid in self.views or uid in self.records:
            self._open[uid] = None

    def _described(self, fact: Fact) -> bool:
        if not isinstance(fact.payload, ClusterDescribed):
            return fact.name == STATE_NAME  # the scheduler's part of a cluster
        self.claims = fact.payload.devices == "scheduler"
        self._open.update(dict.fromkeys(self.views))
        self.changed.update((uid, None) for uid, view in self.views.items() if view.templates)
        return True
