"""What a JobSet asks (jobset.x-k8s.io/v1alpha2): all pods of all its Jobs, a task group for each replicated Job."""

from collections.abc import Iterator

from muster.agent.core.workloads.asking.common import OPTION_FIELDS, options_of, spec_of, words_of
from muster.agent.core.workloads.asking.jobs import RETRIES_MAX, pods_of
from muster.agent.core.workloads.asking.templates import shape_of
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import NoJobError
from muster.kube.objects import JsonObject, integer, mapping, name_of, namespace_of, objects, text
from muster.schemas.job import JobSpec

_AT_ONCE = "A gang starts whole or not at all: let all Jobs start at once, or make several JobSets."


def spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Raises NoJobError."""
    if text(raw, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder":
        raise NoJobError(
            "its Jobs start one after the other", field="spec.startupPolicy.startupPolicyOrder", cure=_AT_ONCE
        )
    body = options_of(words_of(raw))
    jobs = objects(raw, "spec", "replicatedJobs")
    body["task_groups"] = [_group(job, policy, path=f"spec.replicatedJobs[{text(job, 'name')}]") for job in jobs]
    body["retries"] = min(integer(raw, "spec", "failurePolicy", "maxRestarts"), RETRIES_MAX)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=OPTION_FIELDS)


def pod_specs(raw: JsonObject) -> Iterator[JsonObject]:
    """Of the pods of each task group."""
    for job in objects(raw, "spec", "replicatedJobs"):
        yield mapping(job, "template", "spec", "template", "spec")


def _group(job: JsonObject, policy: WorkloadPolicy, *, path: str) -> JsonObject:
    if objects(job, "dependsOn"):
        raise NoJobError("it waits for another Job", field=f"{path}.dependsOn", cure=_AT_ONCE)
    inner = mapping(job, "template", "spec")
    path = f"{path}.template.spec"
    shape = shape_of(mapping(inner, "template", "spec"), policy, path=f"{path}.template.spec")
    return shape.group(text(job, "name"), integer(job, "replicas", default=1) * pods_of(inner, path=path))
