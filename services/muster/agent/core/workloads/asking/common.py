"""What all kinds of objects say in the same words: options as annotations, and a body that becomes a JobSpec."""

import re
from collections.abc import Mapping

from pydantic import ValidationError

from muster.agent.core.workloads.values import NoJobError
from muster.kube.objects import JsonObject, strings
from muster.kube.workload_labels import OPTIONS, QUEUE, TOPOLOGY
from muster.schemas.job import JobSpec

NAME_CHARS_MAX = 63
LEFT_TO_THE_QUEUE = ("total_run_time_s", "min_slice_s")
_REQUIRED = ":required"


def small_number(said: str, *, most: int) -> int | None:
    """A whole number from 0 to `most` that somebody wrote; None for anything else, however long it is."""
    if not said.isascii() or not said.isdecimal() or len(said) > len(str(most)) or int(said) > most:
        return None
    return int(said)


def words_of(raw: JsonObject) -> dict[str, str]:
    """Labels and annotations together; an annotation of the same name wins, since it may say more."""
    return strings(raw, "metadata", "labels") | strings(raw, "metadata", "annotations")


def job_name(name: str) -> str:
    """An object's name as a job's: objects may have dots and be longer."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:NAME_CHARS_MAX].strip("-") or "job"


def options_of(words: Mapping[str, str]) -> JsonObject:
    """Fields of a JobSpec that labels and annotations say."""
    options: JsonObject = {field: words[key] for key, field in OPTIONS.items() if key in words}
    options["queue"] = words.get(QUEUE)
    if level := words.get(TOPOLOGY, ""):
        options["topology"] = {"level": level.removesuffix(_REQUIRED), "required": level.endswith(_REQUIRED)}
    return options


def spec_of(body: JsonObject, *, name: str, team: str, fields: Mapping[str, str] | None = None) -> JobSpec:
    """The JobSpec of these fields. fields: how the object calls a field of it. Raises NoJobError."""
    left_out = tuple(field for field in LEFT_TO_THE_QUEUE if field not in body)
    try:
        return JobSpec.model_validate({**body, "name": job_name(name), "team": team, "left_out": left_out})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = ".".join(map(str, first["loc"]))
        said = (fields or {}).get(path.partition(".")[0], path)
        raise NoJobError(
            f"{first['msg']} (found {str(first['input'])[:100]!r})", field=said, cure="Correct it and apply it again."
        ) from error


OPTION_FIELDS: dict[str, str] = {field: f"metadata.annotations[{key}]" for key, field in OPTIONS.items()} | {
    "queue": f"metadata.labels[{QUEUE}]",
    "topology": f"metadata.annotations[{TOPOLOGY}]",
    "team": "metadata.namespace",
}
"""Where an object says a field of its job."""
