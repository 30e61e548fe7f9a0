"""`muster`: the command line. Groups of commands stand in modules of their own; errors end here, in exit codes."""

import gc
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

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
    queue_commands,
    read_commands,
    replay_commands,
    reservation_commands,
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
HELP = """Muster: an event-driven control plane for GPU fleets.

`muster up` starts everything on this machine; `muster submit` gives it work; `muster queue` and `muster why` say what
happens to it. Exit codes: 0 ok, 2 usage, 3 refused by the system, 4 not reachable.
"""

app = typer.Typer(name="muster", help=HELP, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=True)
for module in (
    stack_commands,
    init_command,
    job_commands,
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
        bool, typer.Option("--version", help="Say the version.", is_eager=True, callback=_version)
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            envvar="MUSTER_URL",
            help="The gateway's address; by default that of the state directory.",
            callback=values.url("http", "https"),
        ),
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(envvar="MUSTER_TOKEN_FILE", help="File that holds the API token.", dir_okay=False)
    ] = None,
    token_command: Annotated[
        str, typer.Option(envvar="MUSTER_TOKEN_COMMAND", help="Program, with its arguments, that prints the API token.")
    ] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option(envvar="MUSTER_CA_FILE", help="CA certificates that verify the gateway.", dir_okay=False),
    ] = None,
) -> None:
    """Whatever command follows."""
    choose_access(ApiAccess(url=url, token_file=token_file, token_command=token_command, ca_file=ca_file))


@cache
def command_line() -> TyperGroup:
    """Return all commands, which check what they are given."""
    found = cast("TyperGroup", typer.main.get_command(app))
    values.checked(found)
    return found


def run(arguments: Sequence[str]) -> int:
    """Run one command and answer its exit code; errors are told on stderr."""
    try:
        with checked_output():
            ended: object = command_line().main(list(arguments), prog_name="muster", standalone_mode=False)
        return ended if isinstance(ended, int) else int(ExitCode.OK)
    except typer.Abort:
        error: CliError | None = usage("aborted: the question was not answered")
    except typer.TyperException as wrong:
        error = values.wrong_usage(wrong)
    except CliError as told:
        error = told
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.OK)
    if error is None:  # without arguments, a group prints its help
        return int(ExitCode.USAGE)
    print_error(error)
    return int(error.code)


def main() -> None:
    """Entry point of the `muster` script."""
    gc.set_threshold(YOUNG_OBJECTS)
    code = run(sys.argv[1:])
    drop_output()
    sys.exit(code)


if __name__ == "__main__":
    main()
