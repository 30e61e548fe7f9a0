"""Tally pods: workloads with many secrets, terminated pods, flags of the control plane. Secrets are never read."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.guard.core.limits import SHOWN_MAX
from muster.guard.core.look import Pods, WorkloadSecrets
from muster.kube.objects import JsonObject, is_object, mapping, name_of, namespace_of, objects, sequence, strings, text

_ENDED = frozenset({"Succeeded", "Failed"})
_GENERATED = re.compile(r"-[a-z0-9]{8,10}$")  # a Deployment's ReplicaSet ends in a hash of its template
_MINE = "muster.dev/job"
_DIGITS_MAX = 9
_NO_NAME = frozenset({""})
_FLAGS = ("--goaway-chance", "--terminated-pod-gc-threshold")


@dataclass(frozen=True, slots=True)
class PodView:
    """The guard's state of a pod. `secrets` and `config_maps` are the names that it references."""

    namespace: str
    workload: tuple[str, str]
    """Kind and name of the owner."""
    node: str = ""
    ended: bool = False
    secrets: frozenset[str] = frozenset()
    config_maps: frozenset[str] = frozenset()
    flags: tuple[tuple[str, str], ...] = ()
    """Known flags of a control-plane pod."""


def project_pod(raw: JsonObject) -> PodView:
    """Project a pod to the fields that the guard uses."""
    secrets, config_maps = _named(mapping(raw, "spec"))
    return PodView(
        namespace=namespace_of(raw),
        workload=_workload(raw),
        node=text(raw, "spec", "nodeName"),
        ended=text(raw, "status", "phase") in _ENDED,
        secrets=secrets,
        config_maps=config_maps,
        flags=tuple(_flags(raw)) if namespace_of(raw) == "kube-system" else (),
    )


def tally(views: Iterable[PodView], *, secrets_min: int) -> Pods:
    """Tally all pods; workloads with fewer than `secrets_min` secrets are left out."""
    pods = ended = 0
    by_workload: dict[tuple[str, str, str], list[PodView]] = defaultdict(list)
    by_node: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    flags: dict[str, str] = {}
    for view in views:
        pods += 1
        flags.update(view.flags)
        if view.ended:
            ended += 1
            continue
        if view.secrets:
            by_workload[view.namespace, *view.workload].append(view)
        if view.node:
            by_node[view.node].update((view.namespace, "secret", name) for name in view.secrets)
            by_node[view.node].update((view.namespace, "configMap", name) for name in view.config_maps)
    found = (_secrets_of(key, members) for key, members in by_workload.items())
    workloads = sorted(
        (one for one in found if one.secrets >= secrets_min), key=lambda one: (-one.lists, -one.secrets, one.title)
    )
    busiest = max(by_node, key=lambda node: (len(by_node[node]), node), default="")
    return Pods(
        pods=pods,
        terminated=ended,
        workloads=tuple(workloads[:SHOWN_MAX]),
        busiest_node=busiest,
        watches_of_node=len(by_node.get(busiest, ())),
        threshold=_whole(flags.get("--terminated-pod-gc-threshold", "")),
        goaway_chance=_number(flags.get("--goaway-chance", "")),
    )


def _secrets_of(key: tuple[str, str, str], members: list[PodView]) -> WorkloadSecrets:
    namespace, kind, name = key
    distinct = frozenset[str]().union(*(view.secrets for view in members))
    on_nodes: dict[str, set[str]] = defaultdict(set)
    for view in members:
        if view.node:
            on_nodes[view.node] |= view.secrets
    return WorkloadSecrets(
        namespace=namespace,
        kind=kind,
        name=name,
        pods=len(members),
        nodes=len(on_nodes),
        secrets=len(distinct),
        lists=sum(map(len, on_nodes.values())),
    )


def _workload(raw: JsonObject) -> tuple[str, str]:
    """Return the Muster job or owner of a pod: the Deployment of a ReplicaSet, the pod itself without an owner."""
    if job := strings(raw, "metadata", "labels").get(_MINE):
        return "MusterJob", job
    for owner in objects(raw, "metadata", "ownerReferences"):
        kind, name = text(owner, "kind"), text(owner, "name")
        if kind == "ReplicaSet" and (base := _GENERATED.sub("", name)) != name:
            return "Deployment", base
        return kind, name
    return "Pod", name_of(raw)


def _named(spec: JsonObject) -> tuple[frozenset[str], frozenset[str]]:
    """Return names of secrets and config maps in volumes, projected volumes, environments and pull secrets.

    It runs for every change of every pod, so absent fields are looked up only once.
    """
    secrets, config_maps = set[str](), set[str]()
    for volume in objects(spec, "volumes"):
        secrets.add(text(volume, "secret", "secretName"))
        config_maps.add(text(volume, "configMap", "name"))
        for source in objects(volume, "projected", "sources"):
            secrets.add(text(source, "secret", "name"))
            config_maps.add(text(source, "configMap", "name"))
    for containers in ("containers", "initContainers", "ephemeralContainers"):
        for container in objects(spec, containers) if containers in spec else ():
            for source in objects(container, "envFrom") if "envFrom" in container else ():
                secrets.add(text(source, "secretRef", "name"))
                config_maps.add(text(source, "configMapRef", "name"))
            for variable in sequence(container, "env"):
                if is_object(variable) and "valueFrom" in variable:
                    secrets.add(text(variable, "valueFrom", "secretKeyRef", "name"))
                    config_maps.add(text(variable, "valueFrom", "configMapKeyRef", "name"))
    secrets.update(text(pull, "name") for pull in objects(spec, "imagePullSecrets"))
    return frozenset(secrets - _NO_NAME), frozenset(config_maps - _NO_NAME)


def _flags(raw: JsonObject) -> Iterator[tuple[str, str]]:
    for container in objects(raw, "spec", "containers"):
        for word in (*sequence(container, "command"), *sequence(container, "args")):
            if isinstance(word, str) and word.startswith(_FLAGS):
                name, _, value = word.partition("=")
                yield name, value


def _whole(word: str) -> int | None:
    return int(word) if word.isdecimal() and len(word) <= _DIGITS_MAX else None


def _number(word: str) -> float | None:
    try:
        return float(word) if word else None
    except ValueError:
        return None
