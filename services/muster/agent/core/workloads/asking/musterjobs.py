"""What a MusterJob asks: what its spec says, in its namespace's team."""

from muster.agent.core.workloads.asking.common import spec_of
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.kube.objects import JsonObject, camel, job_body, mapping, name_of, namespace_of
from muster.schemas.job import JobSpec

_FIELDS = {name: f"spec.{camel(name)}" for name in JobSpec.model_fields}


def spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Raises NoJobError for what the schema of the API server let through."""
    body = job_body(mapping(raw, "spec"))
    for field in ("name", "team", "left_out"):
        body.pop(field, None)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=_FIELDS)
