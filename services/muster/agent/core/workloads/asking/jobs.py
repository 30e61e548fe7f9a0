"""What a batch Job asks: its pods at once, as one gang."""

from collections.abc import Iterator

from muster.agent.core.workloads.asking.common import OPTION_FIELDS, options_of, spec_of, words_of
from muster.agent.core.workloads.asking.templates import shape_of
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import NoJobError
from muster.kube.objects import JsonObject, integer, mapping, name_of, namespace_of
from muster.schemas.job import JobSpec

BACKOFF_LIMIT = 6
"""Of a Job that says none (batch/v1)."""
RETRIES_MAX = 100


def spec(raw: JsonObject, policy: WorkloadPolicy) -> JobSpec:
    """Raises NoJobError."""
    template = mapping(raw, "spec")
    body = options_of(words_of(raw))
    shape = shape_of(mapping(template, "template", "spec"), policy, path="spec.template.spec")
    body["task_groups"] = [shape.group("main", pods_of(template, path="spec"))]
    body["retries"] = min(integer(template, "backoffLimit", default=BACKOFF_LIMIT), RETRIES_MAX)
    if deadline_s := integer(template, "activeDeadlineSeconds"):
        body.setdefault("total_run_time_s", deadline_s)
    if grace := integer(template, "template", "spec", "terminationGracePeriodSeconds"):
        body.setdefault("grace_s", grace)
    return spec_of(body, name=name_of(raw), team=policy.team(namespace_of(raw)), fields=OPTION_FIELDS)


def pod_specs(raw: JsonObject) -> Iterator[JsonObject]:
    """Of the pods of each task group."""
    yield mapping(raw, "spec", "template", "spec")


def pods_of(job: JsonObject, *, path: str) -> int:
    """How many pods the Job has at once. job: its spec. Raises NoJobError for one that has others after them."""
    parallelism = integer(job, "parallelism", default=1)
    completions = integer(job, "completions", default=parallelism)
    if completions != parallelism:
        raise NoJobError(
            f"{completions} completions by {parallelism} pods at a time are no gang",
            field=f"{path}.completions",
            cure="Make them equal, or make several Jobs.",
        )
    return parallelism
