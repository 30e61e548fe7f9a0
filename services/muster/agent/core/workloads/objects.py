"""Project an object (MusterJob, Job, JobSet, MPIJob), with the job that it asks for.

A batch Job asks for its parallel pods, as one gang; a JobSet (jobset.x-k8s.io/v1alpha2) for all pods of its Jobs, a
task group for each replicated Job; an MPIJob (kubeflow.org/v2beta1) for its launcher and workers; a MusterJob for its
spec.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from muster.agent.core.workload_values import (
    NOTHING_SHOWN,
    REFUSED,
    NoJobError,
    Shown,
    Unfit,
    WorkloadKind,
    WorkloadPolicy,
    WorkloadView,
)
from muster.agent.core.workloads.claim_templates import template_of
from muster.agent.core.workloads.pod_shapes import OPTION_FIELDS, options_of, shape_of, small_number, spec_of, words_of
from muster.kube.objects import (
    JsonObject,
    camel,
    integer,
    job_body,
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
from muster.schemas.job import JobKind, JobSpec

_BACKOFF_LIMIT = 6
"""Default backoffLimit of a Job (batch/v1)."""
_RETRIES_MAX = 100


def _job_spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Return the job of a batch Job. Raises NoJobError."""
    template = mapping(raw, "spec")
    body = options_of(words_of(raw))
    shape = shape_of(mapping(template, "template", "spec"), policy, path="spec.template.spec")
    body["task_groups"] = [shape.group("main", _pods_at_once(template, path="spec"))]
    body["retries"] = min(integer(template, "backoffLimit", default=_BACKOFF_LIMIT), _RETRIES_MAX)
    if deadline_s := integer(template, "activeDeadlineSeconds"):
        body.setdefault("total_run_time_s", deadline_s)
    if grace := integer(template, "template", "spec", "terminationGracePeriodSeconds"):
        body.setdefault("grace_s", grace)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=OPTION_FIELDS)


def _job_pods(raw: JsonObject) -> Iterator[JsonObject]:
    """Return the claim templates of each task group."""
    yield mapping(raw, "spec", "template", "spec")


def _pods_at_once(job: JsonObject, *, path: str) -> int:
    """Return the number of parallel pods of a Job's spec. Raises NoJobError if others follow them."""
    parallelism = integer(job, "parallelism", default=1)
    completions = integer(job, "completions", default=parallelism)
    if completions != parallelism:
        raise NoJobError(
            f"{completions} completions by {parallelism} pods at a time are no gang",
            field=f"{path}.completions",
            cure="Make them equal, or make several Jobs.",
        )
    return parallelism


_AT_ONCE = "A gang starts whole or not at all: let all Jobs start at once, or make several JobSets."


def _job_set_spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Return the job of a JobSet. Raises NoJobError."""
    if text(raw, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder":
        raise NoJobError(
            "its Jobs start one after the other", field="spec.startupPolicy.startupPolicyOrder", cure=_AT_ONCE
        )
    body = options_of(words_of(raw))
    jobs = objects(raw, "spec", "replicatedJobs")
    body["task_groups"] = [
        _job_set_group(job, policy, path=f"spec.replicatedJobs[{text(job, 'name')}]") for job in jobs
    ]
    body["retries"] = min(integer(raw, "spec", "failurePolicy", "maxRestarts"), _RETRIES_MAX)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=OPTION_FIELDS)


def _job_set_pods(raw: JsonObject) -> Iterator[JsonObject]:
    """Return the claim templates of each task group."""
    for job in objects(raw, "spec", "replicatedJobs"):
        yield mapping(job, "template", "spec", "template", "spec")


def _job_set_group(job: JsonObject, policy: WorkloadPolicy, *, path: str) -> JsonObject:
    if objects(job, "dependsOn"):
        raise NoJobError("it waits for another Job", field=f"{path}.dependsOn", cure=_AT_ONCE)
    inner = mapping(job, "template", "spec")
    path = f"{path}.template.spec"
    shape = shape_of(mapping(inner, "template", "spec"), policy, path=f"{path}.template.spec")
    return shape.group(text(job, "name"), integer(job, "replicas", default=1) * _pods_at_once(inner, path=path))


_ROLES = ("Launcher", "Worker")
"""Replica types of an MPIJob, in the order of the task groups `launcher` and `worker`."""


def _mpi_job_spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Return the job of an MPIJob. Raises NoJobError."""
    if text(raw, "spec", "launcherCreationPolicy") == "WaitForWorkersReady":
        raise NoJobError(
            "its launcher is made when the workers run, but a gang starts whole or not at all",
            field="spec.launcherCreationPolicy",
            cure="Set it to AtStartup: the launcher waits for the workers itself.",
        )
    body = {"kind": JobKind.MPI.value, **options_of(words_of(raw))}
    replicas = mapping(raw, "spec", "mpiReplicaSpecs")
    body["task_groups"] = [_mpi_job_group(role, mapping(replicas, role), policy) for role in _ROLES if role in replicas]
    policy_of_runs = mapping(raw, "spec", "runPolicy")
    body["retries"] = min(integer(policy_of_runs, "backoffLimit", default=_BACKOFF_LIMIT), _RETRIES_MAX)
    if deadline_s := integer(policy_of_runs, "activeDeadlineSeconds"):
        body.setdefault("total_run_time_s", deadline_s)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=OPTION_FIELDS)


def _mpi_job_pods(raw: JsonObject) -> Iterator[JsonObject]:
    """Return the claim templates of each task group."""
    replicas = mapping(raw, "spec", "mpiReplicaSpecs")
    for role in _ROLES:
        if role in replicas:
            yield mapping(replicas, role, "template", "spec")


def _mpi_job_group(role: str, replica: JsonObject, policy: WorkloadPolicy) -> JsonObject:
    path = f"spec.mpiReplicaSpecs.{role}.template.spec"
    shape = shape_of(mapping(replica, "template", "spec"), policy, path=path)
    return shape.group(role.lower(), integer(replica, "replicas", default=1))


_MUSTER_JOB_FIELDS = {name: f"spec.{camel(name)}" for name in JobSpec.model_fields}


def _muster_job_spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Return the job of a MusterJob. Raises NoJobError for what the schema of the API server cannot check."""
    body = job_body(mapping(raw, "spec"))
    for field in ("name", "team", "left_out"):
        body.pop(field, None)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=_MUSTER_JOB_FIELDS)


Asks = Callable[[JsonObject, WorkloadPolicy], JobSpec]
_ASKS: Mapping[WorkloadKind, Asks] = {
    WorkloadKind.MUSTER_JOB: _muster_job_spec,
    WorkloadKind.JOB: _job_spec,
    WorkloadKind.JOB_SET: _job_set_spec,
    WorkloadKind.MPI_JOB: _mpi_job_spec,
}
_POD_SPECS: Mapping[WorkloadKind, Callable[[JsonObject], Iterable[JsonObject]]] = {
    WorkloadKind.JOB: _job_pods,
    WorkloadKind.JOB_SET: _job_set_pods,
    WorkloadKind.MPI_JOB: _mpi_job_pods,
}
SUSPEND: Mapping[WorkloadKind, tuple[str, ...]] = {
    WorkloadKind.JOB: ("spec", "suspend"),
    WorkloadKind.JOB_SET: ("spec", "suspend"),
    WorkloadKind.MPI_JOB: ("spec", "runPolicy", "suspend"),
}
"""Path of the field that suspends an object."""
_ENDED: Mapping[WorkloadKind, frozenset[str]] = {
    WorkloadKind.JOB: frozenset({"Complete", "Failed"}),
    WorkloadKind.JOB_SET: frozenset({"Completed", "Failed"}),
    WorkloadKind.MPI_JOB: frozenset({"Succeeded", "Failed"}),
}
NUMBER_MAX = 2**53
"""Digits of an attempt or generation on an object."""
REJECTED = "rejected"
"""Phase of an object that is not a valid job; it may be edited."""


class WorkloadProjection:
    """Projects objects of one kind; None if an object asks nothing of Muster."""

    def __init__(self, kind: WorkloadKind, api_version: str, policy: WorkloadPolicy) -> None:
        self._kind = kind
        self._api_version = api_version
        self._policy = policy

    def __call__(self, raw: JsonObject) -> WorkloadView | None:
        """Project an object; never raises: an invalid job has a reason."""
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
        """Return the claim templates of each task group; () for an invalid job."""
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
    """Return a status or annotations as one text; None counts as absent."""
    return json.dumps({key: value for key, value in body.items() if value is not None}, sort_keys=True)


def tagged(number: int, owner: str) -> str:
    """Return a number with a tag of this job or object, because annotations are copied with objects."""
    return f"{number}/{owner}"


def _number_of(said: str, owner: str) -> int:
    """Return the number of a tagged text; 0 for a copied one."""
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
    """Return whether the shown id is the object's own, and not copied."""
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
