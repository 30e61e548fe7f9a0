"""The command line `muster`: it assembles the commands and converts errors into exit codes."""

import gc
import sys
from collections.abc import Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command_name
from typer.models import CommandInfo, TyperInfo

from muster.bus.limits import YOUNG_OBJECTS
from muster.cli import (
    accounting_commands,
    cluster_commands,
    cordon_commands,
    device_commands,
    guard_commands,
    health_commands,
    init_command,
    job_commands,
    kubernetes_commands,
    log_commands,
    login_commands,
    preflight_commands,
    presentation,
    queue_commands,
    read_commands,
    replay_commands,
    reservation_commands,
    run_commands,
    scale_commands,
    schema_commands,
    simulate_commands,
    stack_commands,
    template_commands,
    token_commands,
    upgrade_commands,
    usage_commands,
    values,
    watch_commands,
    webhook_commands,
)
from muster.cli.api_access import ApiAccess, choose_access
from muster.cli.errors import CliError, ExitCode, usage
from muster.cli.output import checked_output, drop_output, print_error, print_line
from muster.cli.tools import tool_commands

DISTRIBUTION = "gpumuster"
WITH_VALUE = ("--url", "--token-file", "--token-command", "--ca-file")
"""Options before the command that take the next word."""
HELP = """Muster: an event-driven control plane for GPU fleets.

`muster up` starts a stack on this machine, `muster submit` submits jobs, `muster queue` lists them, and `muster why`
explains the state of one job. Exit codes: 0 success, 1 a watched job failed, 2 usage error, 3 refused, 4 unreachable.
"""

app = typer.Typer(name="muster", help=HELP, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=True)
for module in (
    stack_commands,
    init_command,
    job_commands,
    run_commands,
    read_commands,
    accounting_commands,
    cordon_commands,
    cluster_commands,
    usage_commands,
    reservation_commands,
    scale_commands,
    watch_commands,
    replay_commands,
    login_commands,
):
    module.register(app)
tools = tool_commands()
guard_commands.app.add_typer(tools.guard)
for group in (
    template_commands.app,
    queue_commands.app,
    device_commands.app,
    tools.demo,
    tools.bench,
    simulate_commands.app,
    schema_commands.app,
    log_commands.app,
    token_commands.app,
    login_commands.context_app,
    webhook_commands.app,
    kubernetes_commands.app,
    guard_commands.app,
    health_commands.app,
    preflight_commands.app,
    upgrade_commands.app,
):
    app.add_typer(group)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print_line(f"muster {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback(help=HELP)
def muster(
    *,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            envvar="MUSTER_URL",
            help="Gateway URL. Default: the gateway of the state directory.",
            callback=values.url("http", "https"),
        ),
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(envvar="MUSTER_TOKEN_FILE", help="File with the API token.", dir_okay=False)
    ] = None,
    token_command: Annotated[
        str, typer.Option(envvar="MUSTER_TOKEN_COMMAND", help="Command that prints the API token.")
    ] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option(envvar="MUSTER_CA_FILE", help="CA certificates to verify the gateway, in PEM.", dir_okay=False),
    ] = None,
) -> None:
    """Read the options that precede the command."""
    choose_access(ApiAccess(url=url, token_file=token_file, token_command=token_command, ca_file=ca_file))


@cache
def command_line(name: str = "") -> TyperGroup:
    """Return the root command, with validation of every value.

    name: the command or group that is used, the only one that is built then: building all takes as long as importing
    them.
    """
    used = copy(app)
    if name:
        used.registered_commands = [one for one in app.registered_commands if _name_of(one) == name]
        used.registered_groups = [one for one in app.registered_groups if _name_of(one) == name]
    found = cast("TyperGroup", typer.main.get_command(used))
    values.checked(found)
    return found


def _name_of(one: CommandInfo | TyperInfo) -> str:
    if isinstance(one, TyperInfo):
        return str((one.typer_instance or app).info.name)
    return one.name or get_command_name(one.callback.__name__ if one.callback is not None else "")


def _named(arguments: Sequence[str]) -> str:
    """Return the command or group that the arguments name; "" if it is unknown, or none is named."""
    registered: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    words = iter(arguments)
    for word in words:
        if word == "--version":
            return word  # no command is needed
        if not word.startswith("-"):
            return word if word in map(_name_of, registered) else ""
        if word in WITH_VALUE:
            next(words, None)
    return ""


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; print errors on standard error."""
    presentation.reset()
    try:
        with checked_output():
            ended: object = command_line(_named(arguments)).main(
                list(arguments), prog_name="muster", standalone_mode=False
            )
        return ended if isinstance(ended, int) else int(ExitCode.OK)
    except typer.Abort:
        error: CliError | None = usage("aborted: the confirmation was not answered")
    except typer.TyperException as wrong:
        error = values.wrong_usage(wrong)
    except CliError as told:
        error = told
    except ModuleNotFoundError as missing:
        error = _needs_server(missing, arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.OK)
    if error is None:  # without arguments, a group prints its help
        return int(ExitCode.USAGE)
    print_error(error)
    return int(error.code)


def _needs_server(missing: ModuleNotFoundError, arguments: Sequence[str]) -> CliError:
    """Return the error of a command that needs a package of the extra `server`. Raises any other import error."""
    if not missing.name or missing.name.split(".")[0] in ("muster", "muster_tools"):
        raise missing
    path, commands = ["muster"], command_line().commands
    for word in arguments:
        if word in commands:
            path.append(word)
            commands = getattr(commands[word], "commands", {})
    return usage(f"`{' '.join(path)}` needs the server packages: pip install '{DISTRIBUTION}[server]'")


def main() -> None:
    """Entry point of the `muster` script."""
    gc.set_threshold(YOUNG_OBJECTS)
    code = run(sys.argv[1:])
    drop_output()
    sys.exit(code)


if __name__ == "__main__":
    main()
