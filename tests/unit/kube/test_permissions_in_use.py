"""The agent's permissions against the calls in its code: no call is without a right, no right without a use."""

import ast
from collections.abc import Iterator
from pathlib import Path

from muster.agent.core.kubernetes import calls
from muster.agent.core.kubernetes.calls import Kind
from muster.kube.permissions import AGENT, permissions_of

Right = tuple[str, str]
"""Resource, as permissions title it, and verb."""

VERBS = {"Read": "get", "Create": "create", "Delete": "delete", "Merge": "patch", "Replace": "update"}
FIXED: dict[str, Right] = {"Bind": ("pods/binding", "create"), "Evict": ("pods/eviction", "create")}
SUBRESOURCES = frozenset({"status"})
WATCHING = frozenset({"list", "watch"})
ELSEWHERE = {
    ("events", "create"): "kubernetes/workloads.py",
    ("musterjobs/status.muster.dev", "patch"): "kubernetes/workloads.py",
    ("pods/status", "patch"): "kubernetes/workloads.py",
    ("resourceclaims/binding.resource.k8s.io", "update"): "asked by the API server for a status with an allocation",
    ("nodes.muster.dev", "bind"): "asked about by the admission policies",
    **{(f"{kind}.{group}", "patch"): "kinds that are chosen at run time"
       for kind, group in (
           ("jobs", "batch"), ("jobsets", "jobset.x-k8s.io"), ("mpijobs", "kubeflow.org"),
           ("machinesets", "cluster.x-k8s.io"), ("machines", "cluster.x-k8s.io"),
           ("machinesets", "machine.openshift.io"), ("machines", "machine.openshift.io"))},
}  # fmt: skip
"""Rights that no call of a fixed kind uses, and what does."""


def called() -> set[Right]:
    folder = Path(calls.__file__).parents[2]
    return {right for file in folder.rglob("*.py") for right in _rights(ast.parse(file.read_text()))}


def _rights(tree: ast.AST) -> Iterator[Right]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if (fixed := FIXED.get(node.func.id)) is not None:
            yield fixed
        if node.func.id in VERBS and (kind := _kind(node)) is not None:
            said = [one.value for one in (*node.args, *(key.value for key in node.keywords)) if _is_sub(one)]
            name, _, group = kind.value.partition(".")
            resource = f"{name}/{said[0]}" if said else name
            yield (f"{resource}.{group}" if group else resource), VERBS[node.func.id]


def _kind(call: ast.Call) -> Kind | None:
    first = call.args[0] if call.args else None
    is_fixed = isinstance(first, ast.Attribute) and isinstance(first.value, ast.Name) and first.value.id == "Kind"
    return Kind[first.attr] if is_fixed and isinstance(first, ast.Attribute) else None


def _is_sub(one: ast.expr) -> bool:
    return isinstance(one, ast.Constant) and one.value in SUBRESOURCES


def granted() -> set[Right]:
    return {(row.title, verb) for row in permissions_of(AGENT) for verb in row.verbs}


def test_every_call_of_the_agent_is_permitted() -> None:
    assert called() - granted() == set()


def test_every_permission_of_the_agent_has_a_use() -> None:
    unused = {right for right in granted() - called() if right[1] not in WATCHING}
    assert unused == set(ELSEWHERE)
