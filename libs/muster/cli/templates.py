"""Job templates: one YAML file each in the user's configuration directory, and jobs made of them.

A template is this user's alone, so the server knows nothing of it: what is submitted is a complete job.
"""

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml
from pydantic import JsonValue, ValidationError

from muster.cli import job_spec, output
from muster.cli.errors import CliError, usage
from muster.cli.files import config_dir, write_private
from muster.cli.job_commands import JobOptions
from muster.cli.jobfile import assignment, load_jobs, sentence, yaml_value
from muster.cli.options import Output
from muster.cli.output import print_line, print_lines
from muster.cli.text import gpus
from muster.schemas.base import parse_request
from muster.schemas.job import JobSpec, TaskGroup

TEMPLATES_MAX = 1_000
DEPTH_MAX = 8
SUFFIX = ".yaml"
Fields = dict[str, JsonValue]

_IN_MAPS = re.compile(r"(labels|pod\.env)\..")
"""Values of these fields are text, whatever they look like."""


def directory() -> Path:
    """Return the directory of this user's templates."""
    return config_dir(os.environ, home=Path.home()) / "templates"


def file_of(name: str) -> Path:
    """Return the file of a template, which need not exist. name: checked by `template_commands.template_name`."""
    return directory() / f"{name}{SUFFIX}"


def save(name: str, source: Path, *, replace: bool) -> None:
    """Check the file of one job, and keep it. Raises CliError."""
    job = _job_in(source)
    job_spec.print_key_warnings([job])
    file = file_of(name)
    if not replace and file.exists():
        raise usage(f"NAME: there is a template {name}; --replace replaces it")
    if not file.exists() and len(_files()) >= TEMPLATES_MAX:
        raise usage(f"NAME: there are {TEMPLATES_MAX} templates; remove some with `muster template rm`")
    try:
        write_private(file, _yaml(fields_of(job)))
    except OSError as error:
        raise usage(f"NAME: {file} cannot be written ({error.strerror}); no template was saved") from error
    print_line(f"{name}: saved in {file}")


def load(name: str) -> JobSpec:
    """Return the job of a template. Raises CliError."""
    return _job_in(_existing(name))


def _existing(name: str) -> Path:
    """Return the file of a template. Raises CliError if there is none."""
    file = file_of(name)
    if not file.is_file():
        raise usage(f"NAME: there is no template {name}; `muster template list` shows them")
    return file


def _job_in(file: Path) -> JobSpec:
    """Return the only job of a file. Raises CliError."""
    jobs = load_jobs(file)
    if len(jobs) != 1:
        raise usage(f"{file}: holds {len(jobs)} jobs; a template is one job")
    return jobs[0]


def show(name: str, form: Output) -> None:
    """Print one template. Raises CliError."""
    job = load(name)
    if form is Output.JSON:
        output.emit_json(fields_of(job))
    else:
        print_lines(_yaml(fields_of(job)))


def show_all(form: Output) -> None:
    """Print all templates; one that cannot be read says why."""
    found = [(file.stem, _readable(file.stem)) for file in _files()]
    if form is Output.JSON:
        output.emit_json(
            [{"name": name, "job": fields_of(job) if isinstance(job, JobSpec) else None} for name, job in found]
        )
        return
    output.table(("TEMPLATE", "NAME", "TEAM", "GPUS", "COMMAND"), (_row(*one) for one in found), right=("GPUS",))


def remove(name: str, *, yes: bool) -> None:
    """Remove a template. Raises CliError."""
    file = _existing(name)
    if not yes:
        output.confirm(f"Remove the template {name}?")
    try:
        file.unlink()
    except OSError as error:
        raise usage(f"NAME: {file} cannot be removed ({error.strerror})") from error
    print_line(f"{name}: removed")


def made(
    name: str,
    options: JobOptions,
    *,
    given: Collection[str],
    words: Sequence[str] = (),
    assignments: Sequence[str] = (),
) -> JobSpec:
    """Return the job of a template with changes. Raises CliError.

    given: names of the options that the user gave. words: the command behind `--`. assignments: as in `assigned`.
    """
    fields = fields_of(load(name))
    _overlay(fields, options, given=given, words=words)
    try:
        return parse_request(JobSpec, json.dumps(assigned(fields, assignments)))
    except ValidationError as error:
        raise usage(f"template {name} with these changes: {sentence(error)}") from error


def fields_of(job: JobSpec) -> Fields:
    """Return the fields of a job that are set, as JSON would hold them."""
    return cast("Fields", json.loads(job.model_dump_json(exclude_unset=True)))


def assigned(fields: Fields, assignments: Sequence[str]) -> Fields:
    """Return the fields of a job with these assignments, `FIELD=VALUE`, in their order. Raises CliError.

    A field is a path such as `priority`, `pod.env.EPOCHS` or `task_groups.1.gpus`; a field of a task group alone means
    the only group. Values are YAML: 16, true, [a, b], null.
    """
    changed: JsonValue = json.loads(json.dumps(fields))
    for one in assignments:
        path, text = assignment(one, example="gpus=16")
        parts = path.split(".")
        if len(parts) > DEPTH_MAX:
            raise usage(f"--set: {path[:60]!r} has more than {DEPTH_MAX} parts; give the path of a field")
        if parts[0] in TaskGroup.model_fields and parts[0] not in JobSpec.model_fields:
            parts = ["task_groups", str(_only_group(changed, option="--set")), *parts]
        value = text if _IN_MAPS.match(path) else yaml_value(text, place=f"--set: {path}")
        _put(changed, parts, value, path=path)
    return cast("Fields", changed)


def _put(inside: JsonValue, parts: Sequence[str], value: JsonValue, *, path: str) -> None:
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        if isinstance(inside, list):
            if not part.isdecimal() or int(part) >= len(inside):
                raise usage(f"--set: {path}: there is no item {part[:60]!r}; the list has {len(inside)}, from 0")
            if is_last:
                inside[int(part)] = value
                return
            inside = inside[int(part)]
        elif isinstance(inside, dict):
            if is_last:
                inside[part] = value
                return
            inside = inside.setdefault(part, {})
        else:
            break
    raise usage(f"--set: {path}: a part of this path is a single value; give the path of a field")


def _only_group(fields: JsonValue, *, option: str) -> int:
    groups = fields.get("task_groups") if isinstance(fields, dict) else None
    if not isinstance(groups, list) or len(groups) != 1:
        raise usage(f"{option}: the template has several task groups; name one: --set task_groups.0.gpus=16")
    return 0


_OPTION_OF_JOB = {"total_run_time_s": "run_time_s", "labels": "label"}
_OPTION_OF_GROUP = {"gpu_models": "gpu_model", "topology": "group_topology"}


def _overlay(fields: Fields, options: JobOptions, *, given: Collection[str], words: Sequence[str]) -> None:
    """Change the fields of a template by the options that were given; labels and variables are added to its own."""
    job, group = (cast("Fields", part) for part in job_spec.parts(options, words=words))
    pod = _mapping(job.pop("pod"))
    for name, value in job.items():
        if _OPTION_OF_JOB.get(name, name) in given or (name == "command" and words):
            fields[name] = (
                {**_mapping(fields.get(name)), **value} if isinstance(value, dict) and name == "labels" else value
            )
    if "env" in given or "env_secret" in given:
        own = fields["pod"] = _mapping(fields.get("pod"))
        own["env"] = {**_mapping(own.get("env")), **_mapping(pod["env"])}
        own["secret_env"] = _secrets(own.get("secret_env"), pod["secret_env"])
    changed = {name: value for name, value in group.items() if _OPTION_OF_GROUP.get(name, name) in given}
    if not changed:
        return
    first = next(job_spec.option_of(_OPTION_OF_GROUP.get(name, name)) for name in changed)
    groups = cast("list[Fields]", fields["task_groups"])
    of_template = groups[_only_group(fields, option=first)]
    for one, other in (("gpus", "gpu_milli"), ("gpu_milli", "gpus")):
        if one in changed and other not in changed:
            of_template.pop(other, None)
    of_template.update(changed)


def _secrets(old: JsonValue, new: JsonValue) -> list[JsonValue]:
    """Return the references to Secrets, of which the new one of a variable counts."""
    both = [*_listed(old), *_listed(new)]
    return list({_mapping(one).get("variable"): one for one in both}.values())


def _mapping(value: JsonValue) -> Fields:
    return value if isinstance(value, dict) else {}


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _files() -> list[Path]:
    """Return the files of the templates, by name, at most TEMPLATES_MAX."""
    try:
        found = sorted(one for one in directory().iterdir() if one.suffix == SUFFIX and one.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise usage(f"{directory()}: cannot be read ({error.strerror})") from error
    return found[:TEMPLATES_MAX]


def _readable(name: str) -> JobSpec | str:
    try:
        return load(name)
    except CliError as error:
        return str(error)


def _row(name: str, job: JobSpec | str) -> tuple[str, ...]:
    if isinstance(job, str):
        return name, "-", "-", "-", f"({job})"
    return name, job.name, job.team, gpus(job.gpu_milli_total), " ".join(job.command)


def _yaml(fields: Mapping[str, JsonValue]) -> str:
    return yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True, width=110)
