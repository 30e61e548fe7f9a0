"""What options and arguments may hold: checks of every command line, before a command runs and a stack is asked.

`checked` puts those that hold for all on the commands: UTF-8 without control characters, not empty, finite, no device.
A kind of name (`job_id`, `team`, `node`) is the callback of an option or argument.
"""

import math
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import typer

from muster.bus.printable import printable
from muster.cli.errors import CliError, usage

VALUE_CHARS_MAX = 64 * 1024
REASON_CHARS_MAX = 1024
SHOWN_CHARS = 60
"""Characters of a wrong value that an error shows."""
TOLD_CHARS = 400
"""Characters of what the parser of the command line says."""
INTEGER_MAX = 2**63 - 1
_LINES = frozenset({"arguments", "command", "env", "run"})
"""Parameters whose line breaks and tabs are meant."""
_WRITTEN = frozenset({"report"})
"""Paths that are written, so that a device will do: `--report /dev/stdout`."""
_DIRECTORIES = frozenset({"state_dir", "out", "into"})
_NOT_TEXT, _NOT_IN_LINES = re.compile("[\ud800-\udfff]"), str.maketrans("", "", "\n\t")

Value = str | int | float | Path | list[str] | list[int] | tuple[Path, ...] | None


def checked(command: object) -> None:
    """Have every value of a command of typer, or of each command of a group, checked."""
    params: list[typer.CallbackParam] = getattr(command, "params", [])
    below: dict[str, object] = getattr(command, "commands", {})
    for param in params:
        param.process_value = _checking(param)  # type: ignore[method-assign, assignment]
    for one in below.values():
        checked(one)


def kind(what: str, pattern: str, allowed: str, *, also: tuple[str, ...] = ()) -> Callable[..., Value]:
    """Return the callback of an option or argument that names a `what`. also: words that are allowed beside names."""
    form = re.compile(pattern)

    def check(param: typer.CallbackParam, value: Value) -> Value:
        for text in _texts(value):
            if text and text not in also and not form.fullmatch(text):
                raise usage(f"{title(param)}: {shown(text)} is no {what}; {allowed}")
        return value

    return check


NAME = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # NAME_PATTERN of muster.schemas, which `--help` does not load
NAME_FORM = "use at most 63 of a-z, 0-9 and - (not at an end)"
_OBJECT, _OBJECT_FORM = "[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", "use at most 253 letters, digits, `.`, `_`, `:` and `-`"

job_id = kind("job id", "[A-Z2-7]{26}", "give the 26 characters A-Z and 2-7 that `muster queue` shows")
name = kind("name", NAME, NAME_FORM)
team, queue, cluster = (kind(f"{of}'s name", NAME, NAME_FORM) for of in ("team", "queue", "cluster"))
node, device, choice = (kind(f"{of}'s name", _OBJECT, _OBJECT_FORM) for of in ("node", "device", "choice"))
token_id = kind("token id", "[0-9a-f]{64}", "give the 64 characters that `muster token list` shows")
key = kind("idempotency key", "[\x21-\x7e]{1,200}", "use 1 to 200 printable ASCII characters without spaces")
share = kind("number of nodes", "[1-9][0-9]{0,5}|([1-9][0-9]?|100)%", "give 10, for example, or a share such as 5%")
reason = kind("reason", f".{{0,{REASON_CHARS_MAX}}}", f"use at most {REASON_CHARS_MAX} characters")


def url(*schemes: str) -> Callable[..., Value]:
    """Return the callback of an option that is an address of one of these schemes."""
    form = rf"({'|'.join(schemes)})://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{{1,5}})?(/\S*)?"
    return kind(f"{schemes[0]} address", form, f"give a URL such as {schemes[0]}://host:8080")


def source_of(context: typer.Context, parameter: str) -> str:
    """Return the name of the source of a parameter's value: COMMANDLINE, ENVIRONMENT, ..."""
    source = context.get_parameter_source(parameter)
    return "" if source is None else source.name


def title(param: typer.CallbackParam) -> str:
    """Return what people call an option or argument: `--team`, `ID`."""
    if param.param_type_name == "option":
        return max(param.opts, key=len)
    return (param.metavar or str(param.name)).strip("[].").upper()


def shown(text: str) -> str:
    """Return a wrong value as an error shows it: in quotes, printable, not longer than a line."""
    return f"'{printable(text[:SHOWN_CHARS])}'" + ("..." if len(text) > SHOWN_CHARS else "")


def wrong_usage(error: typer.TyperException) -> CliError | None:
    """Return in one line what the parser of the command line refused; None if it printed the help instead."""
    told = " ".join(error.format_message().split())
    if isinstance(error, typer.BadParameter) and error.param is not None:
        param = cast("typer.CallbackParam", error.param)
        told = f"{title(param)}: {' '.join(error.message.split()) or 'is missing; give it'}"
    context: typer.Context | None = getattr(error, "ctx", None)
    told = told.rstrip(".") if len(told) <= TOLD_CHARS else f"{told[:TOLD_CHARS]}..."
    return usage(f"{told}; see `{context.command_path} --help`" if context is not None else told) if told else None


def _checking(param: typer.CallbackParam) -> Callable[[typer.Context, Value], Value]:
    """Return the reader of a parameter that also checks the value: the text first, then the parsed value."""
    understood = param.process_value

    def process(context: typer.Context, given: Value) -> Value:
        if context.resilient_parsing or source_of(context, str(param.name)) not in ("COMMANDLINE", "ENVIRONMENT"):
            return cast("Value", understood(context, given))
        for text in _texts(given):
            _check_text(param, text)
        try:
            value: Value = understood(context, given)
        except OSError as error:
            raise usage(f"{title(param)}: {shown(str(given))}: {error.strerror}; give another path") from error
        except typer.BadParameter as error:
            of = ", ".join(map(shown, _texts(given)))
            raise usage(f"{title(param)}: {of}: {' '.join(error.message.split()).removeprefix('Input ')}") from error
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int | float) and not (math.isfinite(one) and abs(one) <= INTEGER_MAX):
                raise usage(f"{title(param)}: {shown(str(one))} is out of range; give at most {INTEGER_MAX}")
            if isinstance(one, Path):
                _check_path(param, one)
        return value

    return process


def _check_text(param: typer.CallbackParam, text: str) -> None:
    """Raise CliError for what can be no value of any option."""
    wrong = ""
    if not text and param.name != "arguments":
        wrong = "is empty; give a value, or leave it out"
    elif len(text) > VALUE_CHARS_MAX:
        wrong = f"{shown(text)} has {len(text)} characters; give at most {VALUE_CHARS_MAX}"
    elif _NOT_TEXT.search(text):
        wrong = f"{shown(text)} is no UTF-8 text; write it in UTF-8"
    else:
        line = text.translate(_NOT_IN_LINES) if param.name in _LINES else text
        if printable(line) != line:
            wrong = f"{shown(text)} holds a control character; leave it out"
    if wrong:
        raise usage(f"{title(param)}: {wrong}")


def _check_path(param: typer.CallbackParam, path: Path) -> None:
    """Raise CliError for a path that can be neither read nor written, and for one whose reading never ends."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise usage(f"{title(param)}: {shown(str(path))}: {error.strerror}; give another path") from error
    if param.name not in _WRITTEN and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode)):
        raise usage(f"{title(param)}: {path} is a device; give a file, a pipe or a directory")
    if param.name in _DIRECTORIES and not stat.S_ISDIR(mode):
        raise usage(f"{title(param)}: {path} is no directory; give one, or one to be made")


def _texts(value: Value) -> Iterable[str]:
    return (one for one in (value if isinstance(value, list | tuple) else (value,)) if isinstance(one, str))
