"""Ordinary pods as workloads: each alone, or those of one gang together once all are there.

Work grows with what changed: pods of a gang are sorted once, when the last one came, and a later event of one of them
looks at that one alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.workloads.asking.pods import gang_asks
from muster.agent.core.workloads.guests import Guest, PodAsks
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import REFUSED, NoJobError, Unfit, WorkloadKind, WorkloadView
from muster.kube.workload_labels import GANG_SIZE
from muster.schemas.job import JobSpec

MembersOf = Callable[[str], tuple[str, ...]]
"""Members, in the order of their slots, of the workload that this pod is a member of as the log has it; else none."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What pods ask together. members: their uids in the order of the slots. templates: see `WorkloadView`."""

    asks: JobSpec | Unfit
    members: tuple[str, ...]
    templates: tuple[str, ...] = ()


@dataclass(slots=True)
class _Gang:
    """A workload of pods. gone: members that are not there, or leave; ended: that are over."""

    view: WorkloadView
    gone: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


class PodGangs:
    """members_of: what the log knows. Each change gives the workloads that are otherwise now."""

    def __init__(self, policy: WorkloadPolicy, members_of: MembersOf) -> None:
        self._policy = policy
        self._members_of = members_of
        self._pods: dict[str, PodView] = {}
        self._free: dict[tuple[str, str], dict[str, None]] = {}
        """Uids of pods that ask and are members of nothing yet, by namespace and gang."""
        self._gangs: dict[str, _Gang] = {}
        self._leads: dict[str, str] = {}

    def see(self, view: PodView) -> list[WorkloadView]:
        """The pod is so."""
        guest = view.guest
        if guest is None:
            return []
        self._pods[view.uid] = view
        lead = self._leads.get(view.uid)
        if lead is not None and isinstance(self._gangs[lead].view.asks, Unfit):
            self._dissolve(lead)  # its labels may have been mended
        elif lead is not None:
            return self._changed(self._gangs[lead], view)
        known = self._members_of(view.uid)
        if known:
            return [self._join(known, None)]
        if guest.asks is None or view.ends_at:
            self._forget_free(view)
            return []
        if not guest.gang:
            return [self._join((view.uid,), self._spec((view,), guest))]
        return self._gathered(view, guest)

    def lose(self, view_uid: str) -> WorkloadView | str | None:
        """The pod is gone: the workload that it leaves behind, or the uid of one of which nothing is left."""
        view = self._pods.pop(view_uid, None)
        if view is None or view.guest is None:
            return None
        self._forget_free(view)
        lead = self._leads.pop(view_uid, None)
        if lead is None:
            return view_uid
        gang = self._gangs[lead]
        if any(member in self._pods for member in gang.view.members):
            gang.gone.add(view_uid)
            gang.view = replace(gang.view, deleting=True)
            return gang.view
        self._dissolve(lead)
        return lead

    def pods(self, lead: str) -> tuple[PodView, ...]:
        """The pods, as far as they are there, of the workload with this uid."""
        gang = self._gangs.get(lead)
        members = gang.view.members if gang is not None else (lead,)
        return tuple(self._pods[uid] for uid in members if uid in self._pods)

    def clear(self) -> None:
        """Nothing is watched any more."""
        for known in (self._pods, self._free, self._gangs, self._leads):
            known.clear()

    def _dissolve(self, lead: str) -> None:
        """Its pods are members of nothing: those that still ask can be gathered again."""
        for member in self._gangs.pop(lead).view.members:
            self._leads.pop(member, None)
            pod = self._pods.get(member)
            guest = pod.guest if pod is not None else None
            if pod is not None and guest is not None and guest.gang and guest.asks is not None and not pod.ends_at:
                self._free.setdefault((pod.namespace, guest.gang), {})[member] = None

    def _changed(self, gang: _Gang, view: PodView) -> list[WorkloadView]:
        """A member's event: what of the gang it changes."""
        before, guest = gang.view, view.guest
        if view.ends_at and view.end is None:
            gang.gone.add(view.uid)
        else:
            gang.gone.discard(view.uid)
        if view.end is not None:
            gang.ended.add(view.uid)
        shown = guest.shown if guest is not None and view.uid == before.uid else before.shown
        over = len(gang.ended) == len(before.members)
        gang.view = replace(before, deleting=bool(gang.gone), finished=over, shown=shown)
        if shown.phase == REFUSED:
            self._ask_anew(gang)
        return [gang.view] if gang.view != before else []

    def _ask_anew(self, gang: _Gang) -> None:
        """What a refused gang asks now, if its pods are the same in the same places: labels may have been changed."""
        pods = tuple(self._pods[uid] for uid in gang.view.members if uid in self._pods)
        first = pods[0].guest if pods else None
        asking = all(pod.guest is not None and pod.guest.asks is not None for pod in pods)
        if first is None or not asking or len(pods) < len(gang.view.members):
            return
        asked = self._spec(pods, first)
        if asked.members == gang.view.members:
            gang.view = replace(gang.view, asks=asked.asks, templates=asked.templates)

    def _gathered(self, view: PodView, guest: Guest) -> list[WorkloadView]:
        """A pod of a gang came: the gang if it is whole, else that the pod waits, or that they do not agree."""
        free = self._free.setdefault((view.namespace, guest.gang), {})
        free[view.uid] = None
        pods = [self._pods[uid] for uid in free]
        if len({pod.guest.gang_size for pod in pods if pod.guest is not None}) > 1:
            unfit = Unfit(
                f"pods of gang {guest.gang} say different sizes",
                f"metadata.labels[{GANG_SIZE}]",
                "Say one size on all.",
            )
            return [self._alone(pod, asks=unfit) for pod in pods]
        if len(free) < guest.gang_size:
            return [self._alone(view, note=f"it waits until all {guest.gang_size} pods of gang {guest.gang} are there")]
        pods = sorted(pods, key=_age)[: guest.gang_size]
        return [self._join(tuple(pod.uid for pod in pods), self._spec(tuple(pods), guest))]

    def _alone(self, view: PodView, *, asks: Unfit | None = None, note: str = "") -> WorkloadView:
        guest = view.guest
        assert guest is not None, "only guests wait"
        return _view_of(view, guest, (view.uid,), name=view.name, asks=asks, note=note)

    def _join(self, members: tuple[str, ...], asked: _Asked | None) -> WorkloadView:
        """From here on they are members of one workload; its uid is the first one's."""
        if asked is not None:
            members = asked.members
        there = [self._pods[uid] for uid in members if uid in self._pods]
        first = there[0]
        guest = first.guest
        assert guest is not None, "members are guests"
        gang = _Gang(
            _view_of(
                first,
                guest,
                members,
                name=guest.gang or first.name,
                asks=None if asked is None else asked.asks,
                templates=() if asked is None else asked.templates,
            ),
            gone={uid for uid in members if uid not in self._pods},
        )
        self._gangs[members[0]] = gang
        for uid in members:
            self._leads[uid] = members[0]
        for pod in there:
            self._forget_free(pod)
            self._changed(gang, pod)
        gang.view = replace(gang.view, deleting=bool(gang.gone))
        return gang.view

    def _spec(self, pods: tuple[PodView, ...], guest: Guest) -> _Asked:
        """What they ask together."""
        uids = tuple(pod.uid for pod in pods)
        asked: list[PodAsks] = []
        for pod in pods:
            asks = pod.guest.asks if pod.guest is not None else None
            if isinstance(asks, Unfit):
                reason = f"pod {pod.name}: {asks.reason}" if guest.gang else asks.reason
                return _Asked(Unfit(reason, asks.field, asks.cure), uids)
            assert asks is not None, "pods that ask nothing are not gathered"
            asked.append(asks)
        try:
            team = self._policy.team(pods[0].namespace)
            gang = gang_asks(asked, name=guest.gang or pods[0].name, team=team)
        except NoJobError as error:
            return _Asked(Unfit(error.reason, error.field, error.cure), uids)
        return _Asked(gang.spec, tuple(uids[index] for index in gang.order), gang.templates)

    def _forget_free(self, view: PodView) -> None:
        key = view.namespace, view.guest.gang if view.guest is not None else ""
        free = self._free.get(key)
        if free is not None:
            free.pop(view.uid, None)
            if not free:
                del self._free[key]


def _view_of(
    pod: PodView,
    guest: Guest,
    members: tuple[str, ...],
    *,
    name: str,
    asks: JobSpec | Unfit | None,
    note: str = "",
    templates: tuple[str, ...] = (),
) -> WorkloadView:
    return WorkloadView(
        kind=WorkloadKind.POD,
        api_version="v1",
        namespace=pod.namespace,
        name=name,
        uid=members[0],
        generation=0,
        asks=asks,
        shown=guest.shown,
        members=members,
        note=note,
        templates=templates,
    )


def _age(view: PodView) -> tuple[int, list[str | int], str]:
    """By creation, then by name with its numbers read as numbers."""
    parts: list[str | int] = [int(part) if part.isdecimal() else part for part in re.split(r"(\d{1,18})", view.name)]
    return (view.guest.created if view.guest is not None else 0), parts, view.uid
