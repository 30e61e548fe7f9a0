"""Build a job from options, and detect values that look like secrets. Pure."""

import dataclasses
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue, ValidationError

from muster.cli.errors import usage
from muster.cli.job_commands import JobOptions
from muster.cli.jobfile import sentence
from muster.cli.output import print_note
from muster.schemas.job import JobSpec, TaskGroup

OPTIONS = tuple(field.name for field in dataclasses.fields(JobOptions))
_OF_GROUP = tuple(name for name in OPTIONS if name in TaskGroup.model_fields and name not in JobSpec.model_fields)
"""Options that are a field of the job's task group, of the same name; every other one of such a name is the job's."""
_OF_JOB = tuple(name for name in OPTIONS if name in JobSpec.model_fields)
_RENAMED = {"gpu_models": "gpu_model", "total_run_time_s": "run_time_s"}
"""Options by the fields that are called otherwise."""

_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}"
    r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bhf_\w{20,}|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"
)
_NAMED = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|KEY|APIKEY|CREDENTIALS?)$", re.IGNORECASE)
_RANDOM = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
_BITS_MIN = 4.0
"""Entropy of each character from which a value counts as random, and so as a possible secret."""


def from_options(options: JobOptions, *, words: Sequence[str] = ()) -> JobSpec:
    """Return a job of one task group. words: its command. Raises CliError that names the option.

    None: not given. An option sets the field of the same name of the job, or else of its task group.
    """
    body, shape = parts(options, words=words)
    try:
        return JobSpec.model_validate({**body, "task_groups": [shape]})
    except ValidationError as error:
        first = error.errors()[0]["loc"]
        named = next(filter(None, (option_of(str(part)) for part in reversed(first))), "")
        if named == option_of("topology") and first[0] == "task_groups":
            named = "--group-topology"
        elif words and named == option_of("command"):
            named = "COMMAND"
        raise usage(f"{named + ': ' if named else ''}{sentence(error)}") from error


def parts(options: JobOptions, *, words: Sequence[str]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields of the job and of its task group that options and command give. Raises CliError."""
    fields: dict[str, object] = {name: getattr(options, name) for name in _OF_JOB}
    fields |= {
        "topology": topology(options.topology),
        "total_run_time_s": options.run_time_s,
        "same_model": options.same_model or None,
        "command": list(words) or command(options.command),
        "labels": labels(options.label or []),
    }
    fields["pod"] = {"env": variables(options.env or []), "secret_env": secret_variables(options.env_secret or [])}
    group: dict[str, object] = {name: getattr(options, name) for name in _OF_GROUP}
    group |= {"gpu_models": options.gpu_model or [], "topology": topology(options.group_topology)}
    body = {name: value for name, value in fields.items() if value is not None}
    shape = {name: value for name, value in group.items() if value is not None}
    return body, shape


def option_of(field: str) -> str:
    """Return the option of a field of the job or its task group, "" if it has none."""
    name = _RENAMED.get(field, field)
    return f"--{name.replace('_', '-')}" if name in OPTIONS else ""


def topology(text: str) -> JsonValue:
    """Parse a topology level: `rack` is preferred, `rack!` is required."""
    return {"level": text.removesuffix("!"), "required": text.endswith("!")} if text else None


def labels(pairs: Sequence[str]) -> dict[str, JsonValue]:
    """Parse `key=value` pairs. Raises CliError on one without `=`."""
    return _pairs(pairs, option="--label", form="key=value", example="project=llm")


def variables(pairs: Sequence[str]) -> dict[str, JsonValue]:
    """Parse `NAME=VALUE` pairs. Raises CliError on one without `=`."""
    return _pairs(pairs, option="--env", form="NAME=VALUE", example="EPOCHS=3")


def secret_variables(pairs: Sequence[str]) -> list[JsonValue]:
    """Parse `NAME=SECRET/KEY`. Raises CliError that does not repeat the value, since it may be a secret."""
    found: list[dict[str, JsonValue]] = []
    for pair in pairs:
        name, _, reference = pair.partition("=")
        secret, _, key = reference.partition("/")
        if not (name and secret and key):
            raise usage("--env-secret: is not NAME=SECRET/KEY; write for example --env-secret HF_TOKEN=hub/token")
        if any(one["variable"] == name for one in found):
            raise usage(f"--env-secret: {name!r} is given twice; give it once")
        found.append({"variable": name, "secret": secret, "key": key})
    return [*found]


def command(text: str) -> list[JsonValue]:
    """Split a command line into words. Raises CliError on an open quote."""
    try:
        return list(shlex.split(text))
    except ValueError as error:
        raise usage(f"--command: {error}; close the quote") from error


def _pairs(pairs: Sequence[str], *, option: str, form: str, example: str) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise usage(f"{option}: {pair!r} is not {form}; write for example {option} {example}")
        if found.get(name, value) != value:
            raise usage(f"{option}: {name!r} is given with two values; give it once")
        found[name] = value
    return found


def print_key_warnings(specs: Iterable[JobSpec]) -> None:
    """Print each warning of `key_warnings` once."""
    for warning in dict.fromkeys(one for spec in specs for one in key_warnings(spec)):
        print_note(f"warning: {warning}")


def key_warnings(spec: JobSpec) -> Iterator[str]:
    """Yield a warning for each variable and command of the job that seems to contain a secret."""
    for name, value in spec.pod.env.items():
        if looks_like_key(name, value):
            yield (
                f"pod.env.{name} looks like a secret, and the log keeps job specs permanently; use a Secret "
                f"instead: --env-secret {name}=SECRET/KEY, or pod.secret_env in a file"
            )
    commands = [("command", spec.command)]
    commands += [(f"task_groups.{group.name}.command", group.command) for group in spec.task_groups]
    for place, words in commands:
        if any(_KNOWN.search(word) for word in words):
            yield f"{place} seems to contain a secret, and the log keeps job specs permanently; use --env-secret"


def looks_like_key(name: str, value: str) -> bool:
    """Return whether a variable is probably a secret. Paths and addresses are not."""
    if _KNOWN.search(value):
        return True
    if not value or value.startswith(("/", "./", "~")) or "://" in value:
        return False
    return bool(_NAMED.search(name)) or _is_random(value)


def _is_random(value: str) -> bool:
    kinds = (str.islower, str.isupper, str.isdigit)
    if not _RANDOM.fullmatch(value) or not all(any(map(kind, value)) for kind in kinds):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= _BITS_MIN
