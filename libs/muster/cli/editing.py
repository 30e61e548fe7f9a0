"""`muster edit`: changes of a job, given as `FIELD=VALUE` or written in an editor."""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from pydantic import JsonValue, ValidationError

from muster.cli import output
from muster.cli.errors import usage
from muster.cli.files import read_text
from muster.cli.jobfile import assignment, sentence, yaml_value
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.schemas.base import BODY_BYTES_MAX, parse_request
from muster.schemas.job import JobChange, JobSpec, TaskGroup
from muster.schemas.views import JobView

EDITABLE = ("priority", "total_run_time_s", "min_slice_s")
"""Fields of a job that can change after its submission; names of `JobView`, too."""
_HELP = """\
# Change the values, save and close the editor. An unchanged file changes nothing.
# priority: 0 to 1000. total_run_time_s: run-time limit over all attempts, in seconds.
# min_slice_s: minimum run time before preemption, in seconds.
"""


def edit(state_dir: Path, job_id: str, assignments: Sequence[str], *, reason: str, form: Output) -> None:
    """Request changes of a job. Raises CliError."""
    if assignments:
        change = changed(_assigned(assignments), reason=reason, option="--set")
    else:
        editor = _editor(os.environ)
        was = _fields(call(state_dir, lambda muster: muster.get(job_id)))
        became = _written(editor, job_id, was)
        differs = {name: value for name, value in became.items() if name not in was or was[name] != value}
        if not differs:
            print_line(f"{job_id}: nothing was changed")
            return
        change = changed(differs, reason=reason, option="editor")
    job = call(state_dir, lambda muster: muster.edit(job_id, change))
    if output.emitted([job], form):
        return
    asked = ", ".join(f"{name} {getattr(change, name):g}" for name in EDITABLE if getattr(change, name) is not None)
    print_line(f"{job.id}: {asked} requested, was {'held' if job.held else job.phase.value}")


def changed(fields: Mapping[str, JsonValue], *, reason: str, option: str) -> JobChange:
    """Return the change of these fields. Raises CliError that names the field and what to do."""
    for name in fields:
        if name not in EDITABLE:
            known = name in JobSpec.model_fields or name in TaskGroup.model_fields
            problem = "cannot change after submission; cancel the job and submit it again" if known else "is no field"
            raise usage(f"{option}: {name[:60]}: {problem}; fields that can change: {', '.join(EDITABLE)}")
        if fields[name] is None:
            raise usage(f"{option}: {name}: has no value; give a number")
    try:
        return parse_request(JobChange, json.dumps({**fields, "reason": reason}))
    except ValidationError as error:
        raise usage(f"{option}: {sentence(error)}") from error


def _fields(job: JobView) -> dict[str, JsonValue]:
    return {name: getattr(job, name) for name in EDITABLE}


def _assigned(assignments: Sequence[str]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for one in assignments:
        name, text = assignment(one, example="priority=90")
        if name in found:
            raise usage(f"--set: {name[:60]!r} is given twice; give it once")
        found[name] = yaml_value(text, place=f"--set: {name[:60]}")
    return found


def _editor(environment: Mapping[str, str]) -> list[str]:
    """Return the user's editor with its arguments. Raises CliError."""
    chosen = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        words = shlex.split(chosen)
    except ValueError as error:
        raise usage(f"EDITOR: {error}; close the quote") from error
    if not words:
        raise usage("--set: is missing, and neither VISUAL nor EDITOR names an editor; write --set FIELD=VALUE")
    return words


def _written(editor: Sequence[str], job_id: str, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields as the user leaves them in the editor. Raises CliError; then nothing is requested."""
    with TemporaryDirectory(prefix="muster-edit-") as folder:  # only this user may look into it
        file = Path(folder) / f"{job_id}.yaml"
        file.write_text(_HELP + yaml.safe_dump(dict(fields), sort_keys=False), encoding="utf-8")
        try:
            code = subprocess.run([*editor, str(file)], check=False).returncode  # noqa: S603 - the user's own editor
        except OSError as error:
            raise usage(f"EDITOR: {editor[0]} cannot be started ({error.strerror}); no change was requested") from error
        if code:
            raise usage(f"EDITOR: {editor[0]} ended with exit code {code}; no change was requested")
        written = yaml_value(read_text(file, bytes_max=BODY_BYTES_MAX, form="YAML file"), place="editor")
    if not isinstance(written, dict):
        raise usage("editor: the file is no mapping of fields; no change was requested")
    return written
