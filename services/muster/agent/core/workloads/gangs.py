"""Ordinary pods as workloads: each alone, or those of one gang together once all are there."""

import re
from collections.abc import Callable

from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.workloads.asking.pods import gang_spec
from muster.agent.core.workloads.guests import Guest, PodAsks
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import NoJobError, Unfit, WorkloadKind, WorkloadView
from muster.schemas.job import JobSpec

LeadOf = Callable[[str], tuple[str, ...]]
"""Members, in the order of their slots, of the workload that this pod is a member of as the log has it; else none."""


class PodGangs:
    """lead_of: what the log knows. Each change gives the workload as it is now, or the uid of one that is gone."""

    def __init__(self, policy: WorkloadPolicy, members_of: LeadOf) -> None:
        self._policy = policy
        self._members_of = members_of
        self._pods: dict[str, PodView] = {}
        self._by_gang: dict[tuple[str, str], dict[str, None]] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        """Of every pod that is a member, its fellows; the first leads."""

    def see(self, view: PodView) -> WorkloadView | None:
        """The pod is so; None while its gang is not complete, or if it is no pod of this kind."""
        guest = view.guest
        if guest is None:
            return None
        self._pods[view.uid] = view
        if guest.gang:
            self._by_gang.setdefault((view.namespace, guest.gang), {})[view.uid] = None
        members = self._members.get(view.uid) or self._joined(view, guest)
        return self._workload(members) if members else None

    def lose(self, uid: str) -> WorkloadView | str | None:
        """The pod is gone: the workload that it leaves behind, or the uid of one of which nothing is left."""
        view = self._pods.pop(uid, None)
        if view is None or view.guest is None:
            return None
        gang = self._by_gang.get((view.namespace, view.guest.gang))
        if gang is not None:
            gang.pop(uid, None)
            if not gang:
                del self._by_gang[view.namespace, view.guest.gang]
        members = self._members.pop(uid, None)
        if members is None:
            return None
        if any(member in self._pods for member in members):
            return self._workload(members)
        return members[0]

    def pods(self, lead: str) -> tuple[PodView, ...]:
        """The pods, as far as they are there, of the workload with this uid."""
        members = self._members.get(lead) or self._members_of(lead) or (lead,)
        return tuple(self._pods[uid] for uid in members if uid in self._pods)

    def waiting(self, view: PodView) -> tuple[int, int]:
        """How many of its gang are there that have no job yet, and how many there must be."""
        guest = view.guest
        if guest is None:
            return 0, 0
        return len(self._free(view.namespace, guest)), guest.gang_size

    def clear(self) -> None:
        """Nothing is watched any more."""
        self._pods.clear()
        self._by_gang.clear()
        self._members.clear()

    def _joined(self, view: PodView, guest: Guest) -> tuple[str, ...]:
        """The members of the gang that the pod completes, or is of as the log has it."""
        known = self._members_of(view.uid)
        if not known and guest.asks is not None:
            free = self._free(view.namespace, guest) if guest.gang else [view.uid]
            known = tuple(free[: guest.gang_size]) if len(free) >= guest.gang_size else ()
        for member in known:
            self._members[member] = known
        return known

    def _free(self, namespace: str, guest: Guest) -> list[str]:
        """Pods of a gang that ask and are no members yet, the oldest first."""
        return sorted(
            (
                uid
                for uid in self._by_gang.get((namespace, guest.gang), ())
                if uid not in self._members and not self._members_of(uid) and _asks(self._pods[uid])
            ),
            key=lambda uid: _age(self._pods[uid]),
        )

    def _workload(self, members: tuple[str, ...]) -> WorkloadView:
        """What the members are together; its uid is the first one's."""
        there = [self._pods[uid] for uid in members if uid in self._pods]
        first = there[0]
        guest = first.guest
        assert guest is not None, "members are guests"
        asks, order = self._asks(first, guest, there) if len(there) == len(members) else (None, members)
        if asks is not None and order != members:
            members = order
            for member in members:
                self._members[member] = members
        lead = self._pods.get(members[0], first)
        shown = lead.guest.shown if lead.guest is not None else guest.shown
        return WorkloadView(
            kind=WorkloadKind.POD,
            api_version="v1",
            namespace=first.namespace,
            name=guest.gang or first.name,
            uid=members[0],
            generation=0,
            asks=asks,
            shown=shown,
            deleting=len(there) < len(members) or any(pod.ends_at and pod.end is None for pod in there),
            finished=all(pod.end is not None for pod in there),
            members=members,
        )

    def _asks(
        self, first: PodView, guest: Guest, there: list[PodView]
    ) -> tuple[JobSpec | Unfit | None, tuple[str, ...]]:
        """What they ask together, and their order by slots."""
        uids = tuple(pod.uid for pod in there)
        asked: list[PodAsks] = []
        for pod in there:
            asks = pod.guest.asks if pod.guest is not None else None
            if asks is None:
                return None, uids
            if isinstance(asks, Unfit):
                reason = f"pod {pod.name}: {asks.reason}" if guest.gang else asks.reason
                return Unfit(reason, asks.field, asks.cure), uids
            asked.append(asks)
        try:
            team = self._policy.team(first.namespace)
            spec, order = gang_spec(asked, name=guest.gang or first.name, team=team)
        except NoJobError as error:
            return Unfit(error.reason, error.field, error.cure), uids
        return spec, tuple(uids[index] for index in order)


def _asks(view: PodView) -> bool:
    return view.guest is not None and view.guest.asks is not None and not view.ends_at


def _age(view: PodView) -> tuple[int, list[str | int], str]:
    """By creation, then by name with its numbers read as numbers."""
    parts: list[str | int] = [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", view.name)]
    return (view.guest.created if view.guest is not None else 0), parts, view.uid
