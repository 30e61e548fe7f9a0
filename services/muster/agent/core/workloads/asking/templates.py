"""What a pod asks of its node, as a task group; and what it asks that Muster's scheduler cannot give."""

from collections.abc import Mapping

from muster.agent.core.kubernetes.names import SCHEDULER_NAME
from muster.agent.core.kubernetes.resources import pod_requests
from muster.agent.core.workloads.guests import Shape
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.templates import template_of
from muster.agent.core.workloads.values import NoJobError
from muster.kube.objects import JsonObject, integer, mapping, objects, sequence, strings, text, truth

OF_EVERY_NODE = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})
"""Labels in a node selector that say nothing of where among Muster's nodes."""


def shape_of(pod_spec: JsonObject, policy: WorkloadPolicy, *, path: str) -> Shape:
    """path: of the pod's spec, for messages. Raises NoJobError for what would be placed and then not run."""
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
    """Requests that are absent are as the limits: the server fills that in for pods, but not for templates."""
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
    """Models that the node selector or the required node affinity names."""
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
    """The scheduler knows nodes by model, topology and free resources; what asks more would be bound wrongly."""
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
    """What kubelets would turn away: Muster places by neither ports nor operating systems."""
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
        "Muster places by GPU model, topology and free resources, and would not honour this",
        field=field,
        cure=f"Take it away; name models by {policy.model_label} and closeness by the annotation muster.dev/topology.",
    )
