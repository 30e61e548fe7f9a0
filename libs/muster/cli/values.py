"""Validate the values of options and arguments before a command runs.

`checked` applies the rules for all values: UTF-8 without control characters, not empty, finite, not a device. An option
declares exceptions itself: `parser=lines` allows line breaks, `writable=True` marks a file to write (possibly a device
such as /dev/stdout), `file_okay=False` a directory. A kind of name (`job_id`, `team`, `node`) is a callback.
"""

import math
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import typer
from typer.models import ParameterInfo

from muster.bus.printable import printable
from muster.cli.errors import CliError, usage

VALUE_CHARS_MAX = 64 * 1024
REASON_CHARS_MAX = 1024
SHOWN_CHARS = 60
"""Characters of a wrong value in an error."""
TOLD_CHARS = 400
"""Characters of a message of the command-line parser."""
INTEGER_MAX = 2**63 - 1
_NOT_TEXT, _NOT_IN_LINES = re.compile("[\ud800-\udfff]"), str.maketrans("", "", "\n\t")

Value = str | int | float | Path | list[str] | list[int] | tuple[Path, ...] | None


def checked(command: object) -> None:
    """Add validation to every parameter of a command, or of each command of a group."""
    params: list[typer.CallbackParam] = getattr(command, "params", [])
    below: dict[str, object] = getattr(command, "commands", {})
    for param in params:
        param.process_value = _checking(param)  # type: ignore[method-assign, assignment]
    for one in below.values():
        checked(one)


def lines(text: str) -> str:
    """Parse a value that may have line breaks and tabs: `typer.Option(parser=lines, metavar="TEXT")`."""
    return text


def kind(what: str, pattern: str, allowed: str, *, also: tuple[str, ...] = ()) -> Callable[..., Value]:
    """Return a callback that validates names of a `what`. also: further allowed words."""
    form = re.compile(pattern)

    def check(param: typer.CallbackParam, value: Value) -> Value:
        for text in _texts(value):
            if text and text not in also and not form.fullmatch(text):
                raise usage(f"{title(param)}: {shown(text)} is not a valid {what}; {allowed}")
        return value

    return check


NAME = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # NAME_PATTERN of muster.schemas, which `--help` does not load
NAME_FORM = "use at most 63 of a-z, 0-9 and - (not at an end)"
_OBJECT, _OBJECT_FORM = "[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", "use at most 253 letters, digits, `.`, `_`, `:` and `-`"

job_id = kind("job id", "[A-Z2-7]{26}", "give the 26 characters A-Z and 2-7 that `muster queue` shows")
name = kind("name", NAME, NAME_FORM)
team, queue, cluster = (kind(f"{of} name", NAME, NAME_FORM) for of in ("team", "queue", "cluster"))
node, device, choice = (kind(f"{of} name", _OBJECT, _OBJECT_FORM) for of in ("node", "device", "choice"))


def own_name(what: str) -> Callable[..., Value]:
    """Return a callback that validates the names that users give to a `what` of their own."""
    return kind(what, "[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "use at most 63 letters, digits, `.`, `_` and `-`")


token_id = kind("token id", "[0-9a-f]{64}", "give the 64 characters that `muster token list` shows")
key = kind("idempotency key", "[\x21-\x7e]{1,200}", "use 1 to 200 printable ASCII characters without spaces")
share = kind("number of nodes", "[1-9][0-9]{0,5}|([1-9][0-9]?|100)%", "give 10, for example, or a share such as 5%")
reason = kind("reason", f".{{0,{REASON_CHARS_MAX}}}", f"use at most {REASON_CHARS_MAX} characters")


def url(*schemes: str) -> Callable[..., Value]:
    """Return a callback that validates URLs of these schemes."""
    form = rf"({'|'.join(schemes)})://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{{1,5}})?(/\S*)?"
    return kind(f"{schemes[0]} URL", form, f"give a URL such as {schemes[0]}://host:8080")


def source_of(context: typer.Context, parameter: str) -> str:
    """Return the name of the source of a parameter's value: COMMANDLINE, ENVIRONMENT, ..."""
    source = context.get_parameter_source(parameter)
    return "" if source is None else source.name


def title(param: typer.CallbackParam) -> str:
    """Return the name of an option or argument in messages: `--team`, `ID`."""
    if param.param_type_name == "option":
        return max(param.opts, key=len)
    return (param.metavar or str(param.name)).strip("[].").upper()


def shown(text: str) -> str:
    """Return a wrong value for an error: quoted, printable and cut to one line."""
    return f"'{printable(text[:SHOWN_CHARS])}'" + ("..." if len(text) > SHOWN_CHARS else "")


def wrong_usage(error: typer.TyperException) -> CliError | None:
    """Return the error of the command-line parser in one line; None if it printed the help."""
    told = " ".join(error.format_message().split())
    if isinstance(error, typer.BadParameter) and error.param is not None:
        param = cast("typer.CallbackParam", error.param)
        told = f"{title(param)}: {' '.join(error.message.split()) or 'is missing; give it'}"
    context: typer.Context | None = getattr(error, "ctx", None)
    told = told.rstrip(".") if len(told) <= TOLD_CHARS else f"{told[:TOLD_CHARS]}..."
    return usage(f"{told}; see `{context.command_path} --help`" if context is not None else told) if told else None


def _checking(param: typer.CallbackParam) -> Callable[[typer.Context, Value], Value]:
    """Return a reader of a parameter that validates the text first, then the parsed value."""
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
    """Raise CliError for text that is invalid for every option."""
    wrong = ""
    if not text:
        wrong = "is empty; give a value, or omit the option"
    elif len(text) > VALUE_CHARS_MAX:
        wrong = f"{shown(text)} has {len(text)} characters; give at most {VALUE_CHARS_MAX}"
    elif _NOT_TEXT.search(text):
        wrong = f"{shown(text)} is not UTF-8; write it in UTF-8"
    else:
        line = text.translate(_NOT_IN_LINES) if _declaration(param).parser is lines else text
        if printable(line) != line:
            wrong = f"{shown(text)} contains a control character; remove it"
    if wrong:
        raise usage(f"{title(param)}: {wrong}")


def _check_path(param: typer.CallbackParam, path: Path) -> None:
    """Raise CliError for an inaccessible path, a device to read from, and a file in place of a directory."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise usage(f"{title(param)}: {shown(str(path))}: {error.strerror}; give another path") from error
    if not _declaration(param).writable and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode)):
        raise usage(f"{title(param)}: {path} is a device; give a file, a pipe or a directory")


def _declaration(param: typer.CallbackParam) -> ParameterInfo:
    """Return the `typer.Option` or `typer.Argument` of a parameter."""
    return cast("ParameterInfo", param.type_descriptor.parameter_info)  # type: ignore[attr-defined]


def _texts(value: Value) -> Iterable[str]:
    return (one for one in (value if isinstance(value, list | tuple) else (value,)) if isinstance(one, str))
