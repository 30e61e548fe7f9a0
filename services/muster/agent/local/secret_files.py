"""Variables of a job from files that only their owner may read: the job names them, and its value is in no fact."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.schemas.job import SecretVariable

BYTES_MAX = 65_536
"""Of one file: more is no key."""
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretFileError(Exception):
    """A file that a job names cannot be used. Its content is never told."""


def read_secrets(asked: Sequence[SecretVariable], *, directory: Path | None, team: str) -> Mapping[str, str]:
    """The variables, each from `directory`/team/secret/key. Raises SecretFileError.

    A team's jobs can name the files of their own team alone. One line break at the end of a file is left out.
    """
    return {one.variable: _read(one, directory=directory, team=team) for one in asked}


def _read(one: SecretVariable, *, directory: Path | None, team: str) -> str:
    named = f"pod.secret_env: {one.variable} from secret {one.secret!r}, key {one.key!r}"
    if directory is None:
        raise SecretFileError(f"{named}: this cluster has no secrets; set local.secrets to a directory")
    parts = (team, one.secret, one.key)
    if any(part in (".", "..") or "/" in part or "\0" in part for part in parts):
        raise SecretFileError(f"{named}: a name of a file is wanted, without a slash")
    path = directory.joinpath(*parts)
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _FOR_OTHERS:
                raise SecretFileError(f"{named}: {path} must be a file of the agent's user that nobody else may read")
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise SecretFileError(f"{named}: {path} cannot be read: {error.strerror}") from error
    if len(content) > BYTES_MAX or b"\0" in content:
        raise SecretFileError(f"{named}: {path} has more than {BYTES_MAX} bytes, or a zero among them")
    return os.fsdecode(content.removesuffix(b"\n"))
