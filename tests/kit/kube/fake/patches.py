"""Patches: merge (RFC 7386), JSON (RFC 6902), and strategic ones for the lists that Muster touches."""

import copy
from typing import cast

from muster.kube.objects import JsonObject, is_object

_MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "containerStatuses": "name",
    "env": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "taints": "key",
    "volumes": "name",
}
"""What identifies an element, by the list's name (x-kubernetes-patch-merge-key)."""


def merged(old: object, patch: object) -> object:
    """RFC 7386."""
    if not is_object(patch):
        return copy.deepcopy(patch)
    result: JsonObject = dict(old) if is_object(old) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def strategic(old: object, patch: object, *, key: str = "") -> object:
    """As RFC 7386, but lists of known elements are merged by what identifies an element, finalizers as a set."""
    if is_object(patch):
        result: JsonObject = dict(old) if is_object(old) else {}
        for name, value in patch.items():
            if name.startswith("$"):
                continue
            if value is None:
                result.pop(name, None)
            else:
                result[name] = strategic(result.get(name), value, key=name)
        return result
    if isinstance(patch, list) and isinstance(old, list):
        if key == "finalizers":
            return [*old, *(item for item in patch if item not in old)]
        if key in _MERGE_KEYS:
            return _by_key(cast("list[object]", old), cast("list[object]", patch), _MERGE_KEYS[key])
    return copy.deepcopy(patch)


def _by_key(old: list[object], patch: list[object], by: str) -> list[object]:
    result = list(old)
    for item in patch:
        assert is_object(item)
        same = [at for at, was in enumerate(result) if is_object(was) and was.get(by) == item.get(by)]
        if item.get("$patch") == "delete":
            result = [was for at, was in enumerate(result) if at not in same]
        elif same:
            result[same[0]] = strategic(result[same[0]], item)
        else:
            result.append(copy.deepcopy(item))
    return result


def json_patched(old: JsonObject, operations: list[object]) -> JsonObject:
    """RFC 6902: add, remove, replace, test. Raises ValueError for one that cannot be applied."""
    document: object = copy.deepcopy(old)
    for operation in operations:
        assert is_object(operation)
        path = [part.replace("~1", "/").replace("~0", "~") for part in str(operation["path"]).split("/")[1:]]
        _operate(document, path, operation)
    assert is_object(document)
    return document


def _operate(document: object, path: list[str], operation: JsonObject) -> None:
    op, value = operation["op"], copy.deepcopy(operation.get("value"))
    parent = document
    for part in path[:-1]:
        parent = parent[int(part)] if isinstance(parent, list) else parent.get(part) if is_object(parent) else None
    last = path[-1]
    if isinstance(parent, list):
        position = len(parent) if last == "-" else int(last)
        _operate_list(parent, position, str(op), value)
    elif is_object(parent):
        if op in ("remove", "replace", "test") and last not in parent:
            raise ValueError(f"{op}: /{'/'.join(path)}: no such member")
        if op == "test" and parent[last] != value:
            raise ValueError(f"test: /{'/'.join(path)} is another")
        if op == "remove":
            del parent[last]
        elif op in ("add", "replace"):
            parent[last] = value
    else:
        raise ValueError(f"{op}: /{'/'.join(path)}: no such parent")


def _operate_list(parent: list[object], position: int, op: str, value: object) -> None:
    if op == "add":
        parent.insert(position, value)
        return
    if position >= len(parent):
        raise ValueError(f"{op}: no element {position}")
    if op == "test" and parent[position] != value:
        raise ValueError(f"test: element {position} is another")
    if op == "remove":
        del parent[position]
    elif op == "replace":
        parent[position] = value
