"""What an MPIJob asks (kubeflow.org/v2beta1): its launcher and its workers."""

from collections.abc import Iterator

from muster.agent.core.workloads.asking.common import OPTION_FIELDS, options_of, spec_of, words_of
from muster.agent.core.workloads.asking.jobs import BACKOFF_LIMIT, RETRIES_MAX
from muster.agent.core.workloads.asking.templates import shape_of
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import NoJobError
from muster.kube.objects import JsonObject, integer, mapping, name_of, namespace_of, text
from muster.schemas.job import JobKind, JobSpec

ROLES = ("Launcher", "Worker")
"""In the order of the task groups `launcher` and `worker`."""


def spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Raises NoJobError."""
    if text(raw, "spec", "launcherCreationPolicy") == "WaitForWorkersReady":
        raise NoJobError(
            "its launcher is made when the workers run, but a gang starts whole or not at all",
            field="spec.launcherCreationPolicy",
            cure="Set it to AtStartup: the launcher waits for the workers itself.",
        )
    body = {"kind": JobKind.MPI.value, **options_of(words_of(raw))}
    replicas = mapping(raw, "spec", "mpiReplicaSpecs")
    body["task_groups"] = [_group(role, mapping(replicas, role), policy) for role in ROLES if role in replicas]
    policy_of_runs = mapping(raw, "spec", "runPolicy")
    body["retries"] = min(integer(policy_of_runs, "backoffLimit", default=BACKOFF_LIMIT), RETRIES_MAX)
    if deadline_s := integer(policy_of_runs, "activeDeadlineSeconds"):
        body.setdefault("total_run_time_s", deadline_s)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=OPTION_FIELDS)


def pod_specs(raw: JsonObject) -> Iterator[JsonObject]:
    """Of the pods of each task group."""
    replicas = mapping(raw, "spec", "mpiReplicaSpecs")
    for role in ROLES:
        if role in replicas:
            yield mapping(replicas, role, "template", "spec")


def _group(role: str, replica: JsonObject, policy: WorkloadPolicy) -> JsonObject:
    path = f"spec.mpiReplicaSpecs.{role}.template.spec"
    shape = shape_of(mapping(replica, "template", "spec"), policy, path=path)
    return shape.group(role.lower(), integer(replica, "replicas", default=1))
