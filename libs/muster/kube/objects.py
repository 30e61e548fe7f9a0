"""Objects as the API server sends them: plain dictionaries, read through functions that never raise; names of fields.

Typed models cost 475 MiB and 7 s of a stalled loop for 10,000 pods; dictionaries with a few fields kept, 12 MiB.
"""

import re
from typing import TypeAlias, TypeGuard, cast

_MAPS = frozenset({"labels", "env"})
"""Fields whose keys are the job's own."""


JsonObject: TypeAlias = dict[str, object]
"""A JSON object: values are None, bool, int, float, str, list and JsonObject."""


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether it is a JSON object; JSON has no other keys than strings."""
    return isinstance(value, dict)


def at(of: object, *path: str) -> object:
    """What lies at a path of keys; None where it leads nowhere."""
    for key in path:
        if not isinstance(of, dict):
            return None
        of = of.get(key)
    return of


def text(of: object, *path: str) -> str:
    """The string at a path; "" where there is none."""
    found = at(of, *path)
    return found if isinstance(found, str) else ""


def integer(of: object, *path: str, default: int = 0) -> int:
    """The whole number at a path."""
    found = at(of, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def truth(of: object, *path: str) -> bool:
    """Whether true is at a path."""
    return at(of, *path) is True


def mapping(of: object, *path: str) -> JsonObject:
    """The object at a path; an empty one, which is not part of it, where there is none."""
    found = at(of, *path)
    return found if is_object(found) else {}


def sequence(of: object, *path: str) -> list[object]:
    """The list at a path; an empty one, which is not part of it, where there is none."""
    found = at(of, *path)
    return cast("list[object]", found) if isinstance(found, list) else []


def objects(of: object, *path: str) -> list[JsonObject]:
    """The objects in the list at a path."""
    return [item for item in sequence(of, *path) if is_object(item)]


def strings(of: object, *path: str) -> dict[str, str]:
    """The strings in the object at a path, such as labels."""
    return {key: value for key, value in mapping(of, *path).items() if isinstance(value, str)}


def name_of(of: object) -> str:
    """metadata.name."""
    return text(of, "metadata", "name")


def namespace_of(of: object) -> str:
    """metadata.namespace; "" for what lies in none."""
    return text(of, "metadata", "namespace")


def uid_of(of: object) -> str:
    """metadata.uid."""
    return text(of, "metadata", "uid")


def version_of(of: object) -> str:
    """metadata.resourceVersion, of an object or a list."""
    return text(of, "metadata", "resourceVersion")


def camel(name: str) -> str:
    """`total_run_time_s` as Kubernetes writes it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def snake(name: str) -> str:
    """The reverse of `camel`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def job_body(spec: JsonObject) -> JsonObject:
    """A `spec` as the fields of a JobSpec are named; keys of maps (labels, env) are left as they are."""
    return {snake(name): _named(snake(name), value) for name, value in spec.items()}


def _named(field: str, value: object) -> object:
    if is_object(value) and field not in _MAPS:
        return job_body(value)
    if isinstance(value, list):
        return [_named(field, item) for item in value]
    return value
