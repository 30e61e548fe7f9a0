"""From an object to a WorkloadView: what all kinds have in common, and what each says of itself."""

import json
from collections.abc import Callable, Iterable, Mapping

from muster.agent.core.workloads.asking import jobs, jobsets, mpijobs, musterjobs
from muster.agent.core.workloads.asking.common import small_number
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.templates import template_of
from muster.agent.core.workloads.values import (
    NOTHING_SHOWN,
    REFUSED,
    NoJobError,
    Shown,
    Unfit,
    WorkloadKind,
    WorkloadView,
)
from muster.kube.objects import (
    JsonObject,
    integer,
    mapping,
    name_of,
    namespace_of,
    objects,
    strings,
    text,
    truth,
    uid_of,
)
from muster.kube.workload_labels import ATTEMPT, GENERATION, HELD, JOB_ID, PHASE, QUEUE, REASON
from muster.schemas.job import JobSpec

Asks = Callable[[JsonObject, WorkloadPolicy], JobSpec]
_ASKS: Mapping[WorkloadKind, Asks] = {
    WorkloadKind.MUSTER_JOB: musterjobs.spec,
    WorkloadKind.JOB: jobs.spec,
    WorkloadKind.JOB_SET: jobsets.spec,
    WorkloadKind.MPI_JOB: mpijobs.spec,
}
_POD_SPECS: Mapping[WorkloadKind, Callable[[JsonObject], Iterable[JsonObject]]] = {
    WorkloadKind.JOB: jobs.pod_specs,
    WorkloadKind.JOB_SET: jobsets.pod_specs,
    WorkloadKind.MPI_JOB: mpijobs.pod_specs,
}
SUSPEND: Mapping[WorkloadKind, tuple[str, ...]] = {
    WorkloadKind.JOB: ("spec", "suspend"),
    WorkloadKind.JOB_SET: ("spec", "suspend"),
    WorkloadKind.MPI_JOB: ("spec", "runPolicy", "suspend"),
}
"""Where an object says that it shall have no pods."""
_ENDED: Mapping[WorkloadKind, frozenset[str]] = {
    WorkloadKind.JOB: frozenset({"Complete", "Failed"}),
    WorkloadKind.JOB_SET: frozenset({"Completed", "Failed"}),
    WorkloadKind.MPI_JOB: frozenset({"Succeeded", "Failed"}),
}
NUMBER_MAX = 2**53
"""Of an attempt or generation that an object shows."""
REJECTED = "rejected"
"""Phase of an object that can be no job; it may still be mended."""


class WorkloadProjection:
    """Makes views of one kind. None: the object asks nothing of Muster."""

    def __init__(self, kind: WorkloadKind, api_version: str, policy: WorkloadPolicy) -> None:
        self._kind = kind
        self._api_version = api_version
        self._policy = policy

    def __call__(self, raw: JsonObject) -> WorkloadView | None:
        """Raises nothing: what can be no job says why."""
        kind, namespace = self._kind, namespace_of(raw)
        if not self._policy.takes_up(namespace) or (
            kind.makes_pods and QUEUE not in strings(raw, "metadata", "labels")
        ):
            return None
        is_ours, notes = kind is WorkloadKind.MUSTER_JOB, strings(raw, "metadata", "annotations")
        job_id = text(raw, "status", "jobId") if is_ours else notes.get(JOB_ID, "")
        if not self._policy.is_job_of(job_id, namespace=namespace, uid=uid_of(raw)):
            job_id = self._policy.job_id(namespace, uid_of(raw))
        shown = _shown_by_status(raw, job_id) if is_ours else _shown_by_annotations(raw, job_id)
        return WorkloadView(
            kind=kind,
            api_version=self._api_version,
            namespace=namespace,
            name=name_of(raw),
            uid=uid_of(raw),
            generation=integer(raw, "metadata", "generation"),
            asks=self._asks(raw) if not shown.job_id or shown.phase == REFUSED else None,
            shown=shown,
            deleting=bool(text(raw, "metadata", "deletionTimestamp")),
            suspended=truth(raw, *SUSPEND[kind]) if kind.suspends else False,
            finished=self._has_ended(raw),
            let_go_for=_number_of(notes.get(ATTEMPT, ""), job_id),
            held=notes.get(HELD) == job_id,
            templates=self._templates(raw),
        )

    def _templates(self, raw: JsonObject) -> tuple[str, ...]:
        """Of the claims of each task group's pods. What can be no job says so by what it asks."""
        specs = _POD_SPECS.get(self._kind)
        try:
            found = () if specs is None else tuple(template_of(one, path="spec") for one in specs(raw))
        except NoJobError:
            return ()
        return found if any(found) else ()

    def _asks(self, raw: JsonObject) -> JobSpec | Unfit:
        try:
            return _ASKS[self._kind](raw, self._policy)
        except NoJobError as error:
            return Unfit(error.reason, error.field, error.cure)

    def _has_ended(self, raw: JsonObject) -> bool:
        ended = _ENDED.get(self._kind, frozenset())
        return any(
            text(condition, "type") in ended and text(condition, "status") == "True"
            for condition in objects(raw, "status", "conditions")
        )


def said(body: Mapping[str, object]) -> str:
    """A status or annotations as one text; what is None is absent."""
    return json.dumps({key: value for key, value in body.items() if value is not None}, sort_keys=True)


def tagged(number: int, owner: str) -> str:
    """A number that counts for this very job or object only: annotations are copied with objects."""
    return f"{number}/{owner}"


def _number_of(said: str, owner: str) -> int:
    """The reverse; 0 for what somebody else was told."""
    number, _, whose = said.partition("/")
    return (small_number(number, most=NUMBER_MAX) or 0) if whose == owner else 0


def _shown_by_status(raw: JsonObject, job_id: str) -> Shown:
    status = mapping(raw, "status")
    if text(status, "jobId") not in ("", job_id):
        return NOTHING_SHOWN
    phase = text(status, "phase")
    is_rejected = phase == REJECTED
    return Shown(
        job_id=text(status, "jobId"),
        phase=phase,
        said=said(status) if status else "",
        generation=integer(status, "observedGeneration") if is_rejected else 0,
    )


def _shown_by_annotations(raw: JsonObject, job_id: str) -> Shown:
    """What the object's maker copied from another one counts for nothing."""
    notes = strings(raw, "metadata", "annotations")
    generation = _number_of(notes.get(GENERATION, ""), uid_of(raw))
    if notes.get(JOB_ID, "") != job_id and not generation:
        return NOTHING_SHOWN
    shown: JsonObject = {key: notes[key] for key in (JOB_ID, PHASE, REASON, GENERATION) if key in notes}
    return Shown(
        job_id=notes.get(JOB_ID, ""),
        phase=notes.get(PHASE, ""),
        said=said(shown) if shown else "",
        generation=generation,
    )
