"""Names of fields as Kubernetes writes them (`totalRunTimeS`) and as Muster does (`total_run_time_s`). Pure."""

import re

from muster.kube.objects import JsonObject, is_object

_MAPS = frozenset({"labels", "env"})
"""Fields whose keys are the job's own."""


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
