"""Read objects of the API server: plain dictionaries, through functions that never raise.

For 10,000 pods typed models cost 475 MiB and block the loop for 7 s; dictionaries with a few fields cost 12 MiB.
"""

import re
from typing import TypeAlias, TypeGuard, cast

_MAPS = frozenset({"labels", "env"})
"""Fields whose keys are the user's."""


JsonObject: TypeAlias = dict[str, object]
"""A JSON object: values are None, bool, int, float, str, list and JsonObject."""


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether the value is a JSON object."""
    return isinstance(value, dict)


def at(of: object, *path: str) -> object:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        if not isinstance(of, dict):
            return None
        of = of.get(key)
    return of


def text(of: object, *path: str) -> str:
    """Return the string at a path; "" if there is none."""
    found = at(of, *path)
    return found if isinstance(found, str) else ""


def integer(of: object, *path: str, default: int = 0) -> int:
    """Return the integer at a path, or the default."""
    found = at(of, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def truth(of: object, *path: str) -> bool:
    """Return whether the value at a path is true."""
    return at(of, *path) is True


def mapping(of: object, *path: str) -> JsonObject:
    """Return the object at a path, or a new empty one."""
    found = at(of, *path)
    return found if is_object(found) else {}


def sequence(of: object, *path: str) -> list[object]:
    """Return the list at a path, or a new empty one."""
    found = at(of, *path)
    return cast("list[object]", found) if isinstance(found, list) else []


def objects(of: object, *path: str) -> list[JsonObject]:
    """Return the objects of the list at a path."""
    return [item for item in sequence(of, *path) if is_object(item)]


def strings(of: object, *path: str) -> dict[str, str]:
    """Return the string values of the object at a path, such as labels."""
    return {key: value for key, value in mapping(of, *path).items() if isinstance(value, str)}


def name_of(of: object) -> str:
    """Return metadata.name."""
    return text(of, "metadata", "name")


def namespace_of(of: object) -> str:
    """Return metadata.namespace; "" for cluster-scoped objects."""
    return text(of, "metadata", "namespace")


def uid_of(of: object) -> str:
    """Return metadata.uid."""
    return text(of, "metadata", "uid")


def version_of(of: object) -> str:
    """Return metadata.resourceVersion of an object or a list."""
    return text(of, "metadata", "resourceVersion")


def camel(name: str) -> str:
    """Convert a name to camel case, as Kubernetes writes it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def snake(name: str) -> str:
    """Convert a name to snake case."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def job_body(spec: JsonObject) -> JsonObject:
    """Convert a `spec` to the field names of JobSpec; keys of maps (labels, env) are kept."""
    return {snake(name): _named(snake(name), value) for name, value in spec.items()}


def _named(field: str, value: object) -> object:
    if is_object(value) and field not in _MAPS:
        return job_body(value)
    if isinstance(value, list):
        return [_named(field, item) for item in value]
    return value
