"""The manifest of a pod that checks a place, where others make the pod that is to run there.

It is the pod that Muster would make for that place of a job of its own, with the container of the checks alone: the
same devices, the same names and variables by which a gang's pods find each other, nothing of the job.
"""

from dataclasses import replace

from muster.agent.core.kubernetes.pods import PodOrder, pod_manifest
from muster.agent.core.kubernetes.policy import ImpossiblePodError
from muster.agent.core.kubernetes.preflight import plan_apart
from muster.agent.core.kubernetes.preflight_names import CHECKS, GATE_VOLUME
from muster.kube.objects import JsonObject, mapping, objects, text

CONTAINER = "checks"
"""Of such a pod: its only one."""
_UNLIMITED = ("cpu", "memory")
"""What the container may exceed: what others' pods ask is what they need, and no limit of the tools of the checks."""


def check_manifest(order: PodOrder) -> JsonObject:
    """The pod, without a node. order: with checks, of a job without an object. Raises ImpossiblePodError."""
    image = order.policy.preflight_image
    if not image:
        raise ImpossiblePodError("no image is named", field="preflight.image", cure="name one that has `muster`")
    assert order.checks is not None, "it is made to check"
    checked = replace(order, checks=plan_apart(order.checks))
    made = pod_manifest(replace(checked, policy=replace(order.policy, image=image)))
    spec = mapping(made, "spec")
    checks = next(one for one in objects(spec, "initContainers") if text(one, "name") == CHECKS)
    resources = mapping(checks, "resources")
    limits = {name: value for name, value in mapping(resources, "limits").items() if name not in _UNLIMITED}
    spec["containers"] = [{**checks, "name": CONTAINER, "resources": {**resources, "limits": limits}}]
    spec["volumes"] = [one for one in objects(spec, "volumes") if text(one, "name") != GATE_VOLUME]
    del spec["initContainers"]
    return made
