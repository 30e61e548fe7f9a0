"""Ordinary pods that name Muster as their scheduler, as workloads: each alone, or those of one gang by label.

A gang is a workload once all its pods exist. Work is incremental: a gang is sorted once, when its last pod arrives, and
a later event of a pod evaluates only that pod.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from muster.agent.core.kubernetes.resources import instant
from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.workload_values import (
    MAIN,
    NOTHING_SHOWN,
    REFUSED,
    AdoptedPod,
    NoJobError,
    PodAsks,
    Shape,
    Shown,
    Unfit,
    WorkloadKind,
    WorkloadPolicy,
    WorkloadView,
)
from muster.agent.core.workloads.pod_shapes import OPTION_FIELDS, options_of, shape_of, small_number, spec_of, words_of
from muster.kube.objects import JsonObject, integer, mapping, namespace_of, objects, strings, text, truth
from muster.kube.workload_labels import GANG, GANG_SIZE, GROUP, POD_CONDITION, QUEUE
from muster.schemas.job import REPLICAS_MAX, JobSpec

OWNED = frozenset({"Job", "JobSet", "MPIJob", "MusterJob"})
"""Controllers that ask to run as a whole; their pods never ask alone."""


@dataclass(frozen=True, slots=True)
class AdoptedProjection:
    """Makes an AdoptedPod; None for a pod that asks nothing of Muster."""

    policy: WorkloadPolicy

    def __call__(self, raw: JsonObject) -> AdoptedPod | None:
        """Project a pod; never raises: an invalid request has a reason."""
        labels = strings(raw, "metadata", "labels")
        if QUEUE not in labels or not self.policy.takes_up(namespace_of(raw)) or _is_owned(raw):
            return None
        gang, words = labels.get(GANG, ""), words_of(raw)
        size = small_number(words.get(GANG_SIZE, "1"), most=REPLICAS_MAX) or 0
        shown = _shown(raw)
        is_gated = bool(objects(raw, "spec", "schedulingGates"))  # another controller must act first
        waits = not text(raw, "spec", "nodeName") and text(raw, "status", "phase") == "Pending" and not is_gated
        asks: PodAsks | Unfit | None = None
        if waits and not shown.job_id:
            asks = self._asks(raw) if size and (gang or size == 1) else _bad_size(gang)
        return AdoptedPod(
            asks=asks,
            created=instant(text(raw, "metadata", "creationTimestamp")),
            gang=gang,
            gang_size=size or 1,
            shown=shown,
        )

    def _asks(self, raw: JsonObject) -> PodAsks | Unfit:
        words = words_of(raw)
        try:
            shape = shape_of(mapping(raw, "spec"), self.policy, path="spec")
        except NoJobError as error:
            return Unfit(error.reason, error.field, error.cure)
        options = options_of(words)
        options.setdefault("grace_s", integer(raw, "spec", "terminationGracePeriodSeconds", default=30))
        return PodAsks(shape, tuple(sorted(options.items())), words.get(GROUP, MAIN))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The common request of pods; `members` are their uids in slot order."""

    asks: JobSpec | Unfit
    members: tuple[str, ...]
    templates: tuple[str, ...] = ()


def _asked_together(pods: Mapping[str, PodAsks], *, name: str, team: str) -> _Asked:
    """Return the common request of a gang's pods.

    Pods of one group and shape are replicas; other shapes of a group are groups of their own. Options of the job are
    read from the first pod. Raises NoJobError.
    """
    places: dict[tuple[str, Shape], list[str]] = {}
    for uid, asks in pods.items():
        places.setdefault((asks.group, asks.shape), []).append(uid)
    groups: list[JsonObject] = []
    taken: dict[str, int] = {}
    for (group, shape), uids in places.items():
        taken[group] = taken.get(group, 0) + 1
        title = group if taken[group] == 1 else f"{group}-{taken[group]}"
        groups.append(shape.group(title, len(uids)))
    body: JsonObject = {**dict(next(iter(pods.values())).options), "task_groups": groups}
    spec = spec_of(body, name=name, team=team, fields=OPTION_FIELDS)
    templates = tuple(shape.template for _, shape in places)
    members = tuple(uid for uids in places.values() for uid in uids)
    return _Asked(spec, members, templates if any(templates) else ())


def _bad_size(gang: str) -> Unfit:
    field = f"metadata.labels[{GANG_SIZE if gang else GANG}]"
    cure = f"Label all pods of the gang with {GANG} and {GANG_SIZE}, at most {REPLICAS_MAX}."
    return Unfit("a gang has a name and a size", field, cure)


def _is_owned(raw: JsonObject) -> bool:
    return any(
        text(owner, "kind") in OWNED and truth(owner, "controller")
        for owner in objects(raw, "metadata", "ownerReferences")
    )


def _shown(raw: JsonObject) -> Shown:
    """Return the job in a pod's condition: phase as reason, job id at the head of its message."""
    for condition in objects(raw, "status", "conditions"):
        if text(condition, "type") == POD_CONDITION:
            phase, message = kebab(text(condition, "reason")), text(condition, "message")
            job_id = message.partition(":")[0] if text(condition, "status") != "False" else ""
            return Shown(job_id=job_id, phase=phase, said=said_by(phase, message))
    return NOTHING_SHOWN


def said_by(phase: str, message: str) -> str:
    """Return a pod's condition as one text."""
    return f"{phase}\n{message}"


def kebab(reason: str) -> str:
    """Return the phase of a condition's reason: `TimedOut` is `timed-out`."""
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in reason).lstrip("-")


def camel_reason(word: str) -> str:
    """Return the condition's reason of a phase: `timed-out` is `TimedOut`."""
    return "".join(part.capitalize() for part in word.replace("_", "-").split("-"))


MembersOf = Callable[[str], tuple[str, ...]]
"""Returns the members, in slot order, of a pod's workload in the log; () for none."""


@dataclass(slots=True)
class _Gang:
    """A workload of pods; `gone` members are absent or terminating, `ended` ones are over."""

    view: WorkloadView
    gone: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


class PodGangs:
    """Gathers pods into workloads, and yields changed ones. `members_of` reads the log."""

    def __init__(self, policy: WorkloadPolicy, members_of: MembersOf) -> None:
        self._policy = policy
        self._members_of = members_of
        self._pods: dict[str, PodView] = {}
        self._free: dict[tuple[str, str], dict[str, None]] = {}
        """Uids of pods that ask and belong to no workload yet, by namespace and gang."""
        self._gangs: dict[str, _Gang] = {}
        self._leads: dict[str, str] = {}

    def see(self, view: PodView) -> list[WorkloadView]:
        """Handle a new state of a pod."""
        adopted = view.adopted
        if adopted is None:
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
        if adopted.asks is None or view.ends_at:
            self._forget_free(view)
            return []
        if not adopted.gang:
            return [self._join((view.uid,), self._spec((view,), adopted))]
        return self._gathered(view, adopted)

    def lose(self, view_uid: str) -> WorkloadView | str | None:
        """Handle a deleted pod: return the remaining workload, or the uid of one without pods."""
        view = self._pods.pop(view_uid, None)
        if view is None or view.adopted is None:
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
        """Return the existing pods of a workload."""
        gang = self._gangs.get(lead)
        members = gang.view.members if gang is not None else (lead,)
        return tuple(self._pods[uid] for uid in members if uid in self._pods)

    def clear(self) -> None:
        """Forget all pods."""
        for known in (self._pods, self._free, self._gangs, self._leads):
            known.clear()

    def _dissolve(self, lead: str) -> None:
        """Dissolve a workload: pods that still ask can be gathered again."""
        for member in self._gangs.pop(lead).view.members:
            self._leads.pop(member, None)
            pod = self._pods.get(member)
            if pod is None or pod.adopted is None or pod.ends_at:
                continue
            if pod.adopted.gang and pod.adopted.asks is not None:
                self._free.setdefault((pod.namespace, pod.adopted.gang), {})[member] = None

    def _changed(self, gang: _Gang, view: PodView) -> list[WorkloadView]:
        """Handle an event of a member; return the changed workload."""
        before, adopted = gang.view, view.adopted
        if view.ends_at and view.end is None:
            gang.gone.add(view.uid)
        else:
            gang.gone.discard(view.uid)
        if view.end is not None:
            gang.ended.add(view.uid)
        shown = adopted.shown if adopted is not None and view.uid == before.uid else before.shown
        over = len(gang.ended) == len(before.members)
        gang.view = replace(before, deleting=bool(gang.gone), finished=over, shown=shown)
        if shown.phase == REFUSED:
            self._ask_anew(gang)
        return [gang.view] if gang.view != before else []

    def _ask_anew(self, gang: _Gang) -> None:
        """Return the new request of a refused gang with the same pods, whose labels may have changed."""
        pods = tuple(self._pods[uid] for uid in gang.view.members if uid in self._pods)
        first = pods[0].adopted if pods else None
        asking = all(pod.adopted is not None and pod.adopted.asks is not None for pod in pods)
        if first is None or not asking or len(pods) < len(gang.view.members):
            return
        asked = self._spec(pods, first)
        if asked.members == gang.view.members:
            gang.view = replace(gang.view, asks=asked.asks, templates=asked.templates)

    def _gathered(self, view: PodView, adopted: AdoptedPod) -> list[WorkloadView]:
        """Handle a new pod of a gang: return the complete gang, or why the pod waits."""
        free = self._free.setdefault((view.namespace, adopted.gang), {})
        free[view.uid] = None
        pods = [self._pods[uid] for uid in free]
        if len({pod.adopted.gang_size for pod in pods if pod.adopted is not None}) > 1:
            unfit = Unfit(
                f"pods of gang {adopted.gang} say different sizes",
                f"metadata.labels[{GANG_SIZE}]",
                "Say one size on all.",
            )
            return [self._alone(pod, asks=unfit) for pod in pods]
        if len(free) < adopted.gang_size:
            return [
                self._alone(view, note=f"it waits until all {adopted.gang_size} pods of gang {adopted.gang} are there")
            ]
        pods = sorted(pods, key=_age)[: adopted.gang_size]
        return [self._join(tuple(pod.uid for pod in pods), self._spec(tuple(pods), adopted))]

    def _alone(self, view: PodView, *, asks: Unfit | None = None, note: str = "") -> WorkloadView:
        adopted = view.adopted
        assert adopted is not None, "only adopted pods wait"
        return _view_of(view, adopted, (view.uid,), name=view.name, asks=asks, note=note)

    def _join(self, members: tuple[str, ...], asked: _Asked | None) -> WorkloadView:
        """Make the pods members of one workload, whose uid is that of the first."""
        if asked is not None:
            members = asked.members
        there = [self._pods[uid] for uid in members if uid in self._pods]
        first = there[0]
        adopted = first.adopted
        assert adopted is not None, "members are adopted pods"
        gang = _Gang(
            _view_of(
                first,
                adopted,
                members,
                name=adopted.gang or first.name,
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

    def _spec(self, pods: tuple[PodView, ...], adopted: AdoptedPod) -> _Asked:
        """Return the common request of the pods."""
        uids = tuple(pod.uid for pod in pods)
        asked: dict[str, PodAsks] = {}
        for pod in pods:
            asks = pod.adopted.asks if pod.adopted is not None else None
            if isinstance(asks, Unfit):
                reason = f"pod {pod.name}: {asks.reason}" if adopted.gang else asks.reason
                return _Asked(Unfit(reason, asks.field, asks.cure), uids)
            assert asks is not None, "pods that ask nothing are not gathered"
            asked[pod.uid] = asks
        try:
            team = self._policy.team(pods[0].namespace)
            return _asked_together(asked, name=adopted.gang or pods[0].name, team=team)
        except NoJobError as error:
            return _Asked(Unfit(error.reason, error.field, error.cure), uids)

    def _forget_free(self, view: PodView) -> None:
        key = view.namespace, view.adopted.gang if view.adopted is not None else ""
        free = self._free.get(key)
        if free is not None:
            free.pop(view.uid, None)
            if not free:
                del self._free[key]


def _view_of(
    pod: PodView,
    adopted: AdoptedPod,
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
        shown=adopted.shown,
        members=members,
        note=note,
        templates=templates,
    )


def _age(view: PodView) -> tuple[int, list[str | int], str]:
    """Return a sort key: creation time, then name with numeric parts as numbers."""
    parts: list[str | int] = [int(part) if part.isdecimal() else part for part in re.split(r"(\d{1,18})", view.name)]
    return (view.adopted.created if view.adopted is not None else 0), parts, view.uid
