"""Work on nodes at the API server: Jobs pinned to the node, or labels and annotations for others. Pure."""

import base64
import hashlib
from collections.abc import Mapping, Sequence

from muster.agent.core.cluster import WorkOnNode
from muster.agent.core.kubernetes import names
from muster.core.settings import NodeActionSettings, NodeWorkSettings
from muster.kube.objects import JsonObject
from muster.schemas.facts.operations import ChecksRequested, NodeAction, NodeActionRequested, PreflightPlan

WORK_ANNOTATION, BOOT_ANNOTATION = "muster.dev/node-work", "muster.dev/node-work-boot"
"""Annotations of a node or Job: the request, and the node's boot id at its begin."""
DEADLINE_S_LEAST = 1
_NAME_CHARS = 26


class WorkPolicy(NodeWorkSettings):
    """Settings for work on nodes of one cluster."""

    cluster: str = ""
    """Name of the cluster."""

    @property
    def is_any(self) -> bool:
        """Return whether any action or check is configured."""
        return bool(self.image or self.actions)

    @property
    def labels(self) -> frozenset[str]:
        """Return the node labels that report actions."""
        return frozenset(key for way in self.actions.values() if way.by == "label" for key in (*way.done, *way.failed))

    @property
    def annotations(self) -> frozenset[str]:
        """Return the node annotations that report actions, and Muster's own."""
        ways = [way for way in self.actions.values() if way.by == "annotation"]
        return frozenset({WORK_ANNOTATION, BOOT_ANNOTATION, *(key for way in ways for key in (*way.done, *way.failed))})


def job_name(cluster: str, node: str, request_id: str) -> str:
    """Return the Job's name, which depends only on the request, so that it is created once."""
    digest = hashlib.sha256("\x1f".join((cluster, node, request_id)).encode()).digest()
    return "mw-" + base64.b32encode(digest).decode().lower()[:_NAME_CHARS]


def filled(text: str, asked: NodeActionRequested) -> str:
    """Return a value of the settings with the request's values."""
    pairs = (("{version}", asked.version), ("{device}", asked.device), ("{request}", asked.request_id))
    for placeholder, value in pairs:
        text = text.replace(placeholder, value)
    return text


def filled_command(command: Sequence[str], asked: NodeActionRequested) -> list[str]:
    """Return a command of the settings with the request's values.

    An argument whose placeholder is empty is left out with the option before it: without a device, a reset is one of
    all.
    """
    words: list[str] = []
    for one in command:
        word = filled(one, asked)
        if word or not one:
            words.append(word)
        elif words and words[-1].startswith("-"):
            words.pop()
    return words


def words_on_node(way: NodeActionSettings, asked: NodeActionRequested, *, boot: str) -> JsonObject:
    """Return a merge patch of the node that requests an action from another component."""
    wanted = {key: filled(value, asked) for key, value in way.set.items()}
    ours = {WORK_ANNOTATION: asked.request_id, BOOT_ANNOTATION: boot}
    if way.by == "label":
        return {"metadata": {"annotations": {**ours}, "labels": {**wanted}}}
    return {"metadata": {"annotations": {**wanted, **ours}}}


def words_off_node(way: NodeActionSettings) -> JsonObject:
    """Return a merge patch that ends the request; others' values stay, except those in `after` of the settings."""
    ours: JsonObject = {WORK_ANNOTATION: None, BOOT_ANNOTATION: None}
    if way.by == "label":
        return {"metadata": {"annotations": ours, "labels": dict(way.after)}}
    return {"metadata": {"annotations": {**way.after, **ours}}}


def action_job(
    policy: WorkPolicy, way: NodeActionSettings, effect: WorkOnNode, asked: NodeActionRequested, *, boot: str
) -> JsonObject:
    """Return the Job of an action."""
    command = asked.command if asked.action is NodeAction.COMMAND and asked.command else way.command
    told = {
        "MUSTER_ACTION": asked.action.value,
        "MUSTER_VERSION": asked.version,
        "MUSTER_DEVICE": asked.device,
        "MUSTER_REQUEST": asked.request_id,
    }
    image = way.image or policy.image
    return _job(
        policy,
        effect,
        image=image,
        command=filled_command(command, asked),
        told=told,
        privileged=way.privileged,
        boot=boot,
    )


def checks_job(policy: WorkPolicy, effect: WorkOnNode, asked: ChecksRequested, *, gpus: int = 0) -> JsonObject:
    """Return the Job of checks. It requests no GPU, because it must see all GPUs of the node.

    `gpus` is the number in the log, which the checks expect; 0: unknown.
    """
    plan = PreflightPlan(suite=asked.reason[:200] or "node", checks=asked.checks, limit_s=asked.limit_s)
    told = {"MUSTER_PREFLIGHT_PLAN": plan.model_dump_json(exclude_defaults=True), "NVIDIA_VISIBLE_DEVICES": "all"}
    if gpus:
        told["MUSTER_PREFLIGHT_GPUS"] = str(gpus)
    command = ["muster", "preflight", "run"]
    return _job(policy, effect, image=policy.image, command=command, told=told, privileged=False, boot="")


def _job(
    policy: WorkPolicy,
    effect: WorkOnNode,
    *,
    image: str,
    command: list[str],
    told: Mapping[str, str],
    privileged: bool,
    boot: str,
) -> JsonObject:
    name = job_name(policy.cluster, effect.node, effect.request_id)
    labels = {names.WORK_LABEL: name, names.CLUSTER_LABEL: policy.cluster}
    deadline_s = max(DEADLINE_S_LEAST, round(effect.asked.limit_s))
    spec: JsonObject = {
        "backoffLimit": 0,  # never retried: the requester decides
        "activeDeadlineSeconds": deadline_s,
        "ttlSecondsAfterFinished": policy.kept_s,
        "template": {
            "metadata": {"labels": labels},
            "spec": _pod(policy, effect.node, image=image, command=command, told=told, privileged=privileged),
        },
    }
    annotations = {WORK_ANNOTATION: effect.request_id, BOOT_ANNOTATION: boot}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": policy.namespace, "labels": labels, "annotations": annotations},
        "spec": spec,
    }


def _pod(
    policy: WorkPolicy, node: str, *, image: str, command: list[str], told: Mapping[str, str], privileged: bool
) -> JsonObject:
    variables = [{"name": name, "value": value} for name, value in {"MUSTER_NODE": node, **told}.items()]
    security: JsonObject = {"privileged": True} if privileged else {"allowPrivilegeEscalation": False}
    container: JsonObject = {
        "name": "work",
        "image": image,
        "env": variables,
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if command:
        container["command"] = command
    pod: JsonObject = {
        "nodeName": node,  # without a scheduler: the node is cordoned
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(policy.service_account),
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    if policy.service_account:
        pod["serviceAccountName"] = policy.service_account
    if privileged:
        container["volumeMounts"] = [{"name": "host", "mountPath": "/host"}]
        pod |= {"hostPID": True, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    return pod
