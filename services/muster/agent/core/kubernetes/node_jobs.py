"""How work on nodes is done at the API server: Jobs pinned to the node, or words that others act on. Pure."""

import base64
import hashlib
from collections.abc import Mapping, Sequence

from muster.agent.core.cluster import WorkOnNode
from muster.agent.core.kubernetes import names
from muster.core.settings import NodeActionSettings, NodeWorkSettings
from muster.kube.objects import JsonObject
from muster.schemas.facts.operations import ChecksRequested, NodeAction, NodeActionRequested, PreflightPlan

WORK_ANNOTATION, BOOT_ANNOTATION = "muster.dev/node-work", "muster.dev/node-work-boot"
"""Of a node, or of a Job: which request it is about, and what the node called its boot when it was begun."""
DEADLINE_S_LEAST = 1
_NAME_CHARS = 26


class WorkPolicy(NodeWorkSettings):
    """How nodes of one cluster are worked on."""

    cluster: str = ""
    """As Muster calls it."""

    @property
    def is_any(self) -> bool:
        """Whether anything can be done to nodes, or checked on them."""
        return bool(self.image or self.actions)

    @property
    def labels(self) -> frozenset[str]:
        """Labels of nodes that say how an action is."""
        return frozenset(key for way in self.actions.values() if way.by == "label" for key in (*way.done, *way.failed))

    @property
    def annotations(self) -> frozenset[str]:
        """The same of annotations, with our own."""
        ways = [way for way in self.actions.values() if way.by == "annotation"]
        return frozenset({WORK_ANNOTATION, BOOT_ANNOTATION, *(key for way in ways for key in (*way.done, *way.failed))})


def job_name(cluster: str, node: str, request_id: str) -> str:
    """The same for the same request, whoever asks: so that it is made once."""
    digest = hashlib.sha256("\x1f".join((cluster, node, request_id)).encode()).digest()
    return "mw-" + base64.b32encode(digest).decode().lower()[:_NAME_CHARS]


def filled(text: str, asked: NodeActionRequested) -> str:
    """A value of the settings for this request."""
    pairs = (("{version}", asked.version), ("{device}", asked.device), ("{request}", asked.request_id))
    for placeholder, value in pairs:
        text = text.replace(placeholder, value)
    return text


def filled_command(command: Sequence[str], asked: NodeActionRequested) -> list[str]:
    """A command of the settings for this request. An argument that is a placeholder for nothing is left out, with the
    option before it: a reset of no device in particular is one of all.
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
    """A merge patch by which somebody else is asked to act on the node."""
    wanted = {key: filled(value, asked) for key, value in way.set.items()}
    ours = {WORK_ANNOTATION: asked.request_id, BOOT_ANNOTATION: boot}
    if way.by == "label":
        return {"metadata": {"annotations": {**ours}, "labels": {**wanted}}}
    return {"metadata": {"annotations": {**wanted, **ours}}}


def words_off_node(way: NodeActionSettings) -> JsonObject:
    """A merge patch that says that nothing of ours is under way there. What others read stays as they left it, but for
    what the way says it shall be afterwards.
    """
    ours: JsonObject = {WORK_ANNOTATION: None, BOOT_ANNOTATION: None}
    if way.by == "label":
        return {"metadata": {"annotations": ours, "labels": dict(way.after)}}
    return {"metadata": {"annotations": {**way.after, **ours}}}


def action_job(
    policy: WorkPolicy, way: NodeActionSettings, effect: WorkOnNode, asked: NodeActionRequested, *, boot: str
) -> JsonObject:
    """The Job of an action."""
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
    """The Job of checks. It asks for no GPU, since it is to see all of the node's, whoever holds them.

    gpus: that the node has as the log knows it, which are to be there; 0: that is not known.
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
        "backoffLimit": 0,  # once is once: who asked decides whether to ask again
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
        "nodeName": node,  # past every scheduler: the node is closed to them
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
