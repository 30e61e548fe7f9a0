"""Read input files: regular files, pipes and standard input, each up to a size limit. Write private files."""

import os
import select
import stat
from collections.abc import Mapping
from pathlib import Path

import typer

from muster.cli.errors import usage

STANDARD_INPUT = Path("-")
WRITER_S_MAX = 5.0
"""Maximum time to wait for the writer of a named pipe."""


def read_text(path: Path, *, bytes_max: int, form: str) -> str:
    """Return the text of a file; `-`: standard input. form: kind of file, for messages. Raises CliError."""
    where = "standard input" if path == STANDARD_INPUT else str(path)
    try:
        content = _content(path, bytes_max)
    except OSError as error:
        raise usage(f"{where}: cannot be read ({error.strerror}); give the path of a {form}") from error
    except (RuntimeError, ValueError) as error:
        raise usage(f"{where}: cannot be read ({error}); give the path of a {form}") from error
    if len(content) > bytes_max:
        raise usage(f"{where}: is larger than {bytes_max} bytes; split the file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise usage(f"{where}: is not UTF-8 at byte {error.start}; give a {form} in UTF-8") from error


def config_dir(environment: Mapping[str, str], *, home: Path) -> Path:
    """Return `muster` in the user's configuration directory."""
    base = Path(environment.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else home / ".config") / "muster"


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all. Raises OSError."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    new.replace(file)


def _content(path: Path, bytes_max: int) -> bytes:
    """Return the content, cut after the first byte over the limit. Raises OSError, ValueError."""
    if path == STANDARD_INPUT:
        return typer.get_binary_stream("stdin").read(bytes_max + 1)
    _refuse_others(path.stat().st_mode)
    opened = os.open(
        path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )  # without it, opening a pipe that has no writer blocks
    with os.fdopen(opened, "rb") as file:
        mode = os.fstat(opened).st_mode
        _refuse_others(mode)
        first = _first_byte(opened) if stat.S_ISFIFO(mode) else b""
        os.set_blocking(opened, True)
        return first + file.read(bytes_max + 1)


def _refuse_others(mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise ValueError("it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file or a pipe")


def _first_byte(pipe: int) -> bytes:
    """Wait for a writer of the pipe; return at most one byte. Raises ValueError if there is no writer."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    if waiting.poll(1000 * WRITER_S_MAX):
        return b""
    try:
        first = os.read(pipe, 1)
    except BlockingIOError:
        return b""  # there is a writer that has not written yet
    if not first:
        raise ValueError("no process writes to the pipe")
    return first
