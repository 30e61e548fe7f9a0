"""Requests of a pod template, and the options that all kinds of objects have as annotations."""

import re
from collections.abc import Mapping

from pydantic import ValidationError

from muster.agent.core.kubernetes.names import SCHEDULER_NAME
from muster.agent.core.kubernetes.resources import pod_requests
from muster.agent.core.workload_values import NoJobError, Shape, WorkloadPolicy
from muster.agent.core.workloads.claim_templates import template_of
from muster.kube.objects import JsonObject, integer, mapping, objects, sequence, strings, text, truth
from muster.kube.workload_labels import OPTIONS, QUEUE, TOPOLOGY
from muster.schemas.job import JobSpec

OF_EVERY_NODE = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})
"""Node selector labels that do not restrict Muster's choice of nodes."""


def shape_of(pod_spec: JsonObject, policy: WorkloadPolicy, *, path: str) -> Shape:
    """Return the shape of a pod; `path` is for messages. Raises NoJobError if it could be placed but not run."""
    if text(pod_spec, "schedulerName") != SCHEDULER_NAME:
        raise NoJobError(
            "its pods would be placed by another scheduler",
            field=f"{path}.schedulerName",
            cure=f"Set `schedulerName: {SCHEDULER_NAME}`, or take the queue's label away.",
        )
    _refuse_unknown_places(pod_spec, policy, path=path)
    _refuse_own_nodes(pod_spec, path=path)
    requests = pod_requests(_with_limits(pod_spec))
    extended = dict(requests.extended)
    gpus, gpu_milli = extended.get(policy.resource, 0), _share(extended, policy, path=path)
    template = template_of(pod_spec, path=path)
    if template and (gpus or gpu_milli):
        raise NoJobError(
            "its GPUs are asked for by a claim and by count",
            field=f"{path}.containers",
            cure=f"Take the claim away, or {policy.resource} from the requests.",
        )
    models = _models(pod_spec, policy, path=path)
    return Shape(gpus, gpu_milli, models, requests.cpu_milli, requests.memory_mib, template)


def _with_limits(pod_spec: JsonObject) -> JsonObject:
    """Return the requests; absent ones default to the limits, as the server does for pods but not for templates."""
    changed = dict(pod_spec)
    for field in ("containers", "initContainers"):
        changed[field] = [_container(one) for one in objects(pod_spec, field)]
    return changed


def _container(container: JsonObject) -> JsonObject:
    resources = mapping(container, "resources")
    asked = {**mapping(resources, "limits"), **mapping(resources, "requests")}
    return {**container, "resources": {**resources, "requests": asked}}


def _share(extended: Mapping[str, int], policy: WorkloadPolicy, *, path: str) -> int:
    asked = [(name, count) for name, count in extended.items() if name in policy.sharing and count]
    if not asked:
        return 0
    if len(asked) > 1 or asked[0][1] > 1 or extended.get(policy.resource):
        raise NoJobError(
            "a pod has either whole GPUs or one part of one",
            field=f"{path}.containers",
            cure=f"Ask for one of {', '.join(sorted(policy.sharing))}, or for {policy.resource}.",
        )
    return policy.sharing[asked[0][0]]


def _models(pod_spec: JsonObject, policy: WorkloadPolicy, *, path: str) -> tuple[str, ...]:
    """Return the models in the node selector or required node affinity."""
    values = [strings(pod_spec, "nodeSelector").get(policy.model_label)]
    for term in _affinity_terms(pod_spec):
        for expression in objects(term, "matchExpressions"):
            values += [value for value in sequence(expression, "values") if isinstance(value, str)]
    models = dict.fromkeys(policy.models.get(value, value) for value in values if value)
    if strings(pod_spec, "nodeSelector").get(policy.model_label) and _affinity_terms(pod_spec):
        raise NoJobError("two places name GPU models", field=f"{path}.affinity", cure="Name them in one.")
    return tuple(models)


def _affinity_terms(pod_spec: JsonObject) -> list[JsonObject]:
    required = mapping(pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return objects(required, "nodeSelectorTerms")


def _refuse_unknown_places(pod_spec: JsonObject, policy: WorkloadPolicy, *, path: str) -> None:
    """Refuse constraints other than model, topology and resources: the scheduler would ignore them."""
    known = {policy.model_label, *OF_EVERY_NODE}
    for label in strings(pod_spec, "nodeSelector"):
        if label not in known:
            raise _unknown_place(f"{path}.nodeSelector[{label}]", policy)
    for term in _affinity_terms(pod_spec):
        expressions = objects(term, "matchExpressions")
        if sequence(term, "matchFields") or any(
            text(one, "key") != policy.model_label or text(one, "operator") != "In" for one in expressions
        ):
            raise _unknown_place(f"{path}.affinity.nodeAffinity", policy)
    for kind in ("podAffinity", "podAntiAffinity"):
        if sequence(pod_spec, "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"):
            raise _unknown_place(f"{path}.affinity.{kind}", policy)
    if any(
        text(one, "whenUnsatisfiable") != "ScheduleAnyway" for one in objects(pod_spec, "topologySpreadConstraints")
    ):
        raise _unknown_place(f"{path}.topologySpreadConstraints", policy)


def _refuse_own_nodes(pod_spec: JsonObject, *, path: str) -> None:
    """Refuse what kubelets would not admit: Muster considers neither host ports nor operating systems."""
    system = text(pod_spec, "os", "name")
    if system not in ("", "linux"):
        raise NoJobError(f"Muster's nodes do not run {system}", field=f"{path}.os.name", cure="Use linux.")
    on_node = truth(pod_spec, "hostNetwork")  # there every port is the node's
    for kind in ("containers", "initContainers"):
        ports = (port for one in objects(pod_spec, kind) for port in objects(one, "ports"))
        if any(on_node or integer(port, "hostPort") for port in ports):
            raise NoJobError(
                "Muster does not place by ports of nodes",
                field=f"{path}.{kind}.ports",
                cure="Take them away; pods reach each other under their names.",
            )


def _unknown_place(field: str, policy: WorkloadPolicy) -> NoJobError:
    return NoJobError(
        "Muster places by GPU model, topology and free resources, and ignores this",
        field=field,
        cure=f"Take it away; name models by {policy.model_label} and closeness by the annotation muster.dev/topology.",
    )


NAME_CHARS_MAX = 63
LEFT_TO_THE_QUEUE = ("total_run_time_s", "min_slice_s")
_REQUIRED = ":required"


def small_number(said: str, *, most: int) -> int | None:
    """Return a whole number from 0 to `most`; None for anything else, however long."""
    if not said.isascii() or not said.isdecimal() or len(said) > len(str(most)) or int(said) > most:
        return None
    return int(said)


def words_of(raw: JsonObject) -> dict[str, str]:
    """Return labels and annotations together; annotations win, because they may hold more."""
    return strings(raw, "metadata", "labels") | strings(raw, "metadata", "annotations")


def job_name(name: str) -> str:
    """Return an object's name as a job's: objects may have dots and longer names."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:NAME_CHARS_MAX].strip("-") or "job"


def options_of(words: Mapping[str, str]) -> JsonObject:
    """Return the JobSpec fields in labels and annotations."""
    options: JsonObject = {field: words[key] for key, field in OPTIONS.items() if key in words}
    options["queue"] = words.get(QUEUE)
    if level := words.get(TOPOLOGY, ""):
        options["topology"] = {"level": level.removesuffix(_REQUIRED), "required": level.endswith(_REQUIRED)}
    return options


def spec_of(body: JsonObject, *, name: str, team: str, fields: Mapping[str, str] | None = None) -> JobSpec:
    """Return the JobSpec; `fields` maps its fields to the object's for messages. Raises NoJobError."""
    left_out = tuple(field for field in LEFT_TO_THE_QUEUE if field not in body)
    try:
        return JobSpec.model_validate({**body, "name": job_name(name), "team": team, "left_out": left_out})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = ".".join(map(str, first["loc"]))
        said = (fields or {}).get(path.partition(".")[0], path)
        raise NoJobError(
            f"{first['msg']} (found {str(first['input'])[:100]!r})", field=said, cure="Correct it and apply it again."
        ) from error


OPTION_FIELDS: dict[str, str] = {field: f"metadata.annotations[{key}]" for key, field in OPTIONS.items()} | {
    "queue": f"metadata.labels[{QUEUE}]",
    "topology": f"metadata.annotations[{TOPOLOGY}]",
    "team": "metadata.namespace",
}
"""Fields of the object by field of its job."""
