"""Load the commands of `tools/`: `muster bench`, `muster demo` and `muster guard demo`.

The package `muster_tools` is importable in the editable install of a clone; the wheel does not contain it.
"""

from dataclasses import dataclass
from importlib import import_module

import typer

from muster.cli.errors import usage

PACKAGE = "muster_tools"
MODULE = f"{PACKAGE}.commands"
_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@dataclass(frozen=True, slots=True)
class ToolCommands:
    """Commands of the tools, as in `muster_tools.commands.COMMANDS`."""

    bench: typer.Typer
    """`muster bench`."""
    demo: typer.Typer
    """`muster demo`."""
    guard: typer.Typer
    """A group without a name: its commands are added to `muster guard`."""


def tool_commands() -> ToolCommands:
    """Return the commands of the tools; if they are not installed, commands that end with exit code 2."""
    try:
        module = import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise  # the tools are installed and lack something
        return ToolCommands(
            bench=_needs_clone("bench", "Benchmarks"),
            demo=_needs_clone("demo", "Demonstrations"),
            guard=_needs_clone("demo", "Demonstrations"),
        )
    found = module.COMMANDS
    assert isinstance(found, ToolCommands), f"{MODULE}.COMMANDS is no ToolCommands"
    return found


def _needs_clone(name: str, title: str) -> typer.Typer:
    """Return a command that accepts any arguments and raises CliError (usage)."""
    app = typer.Typer()

    @app.command(name, help=f"{title}; available only in a clone of the repository.", context_settings=_ANY_ARGUMENTS)
    def needs_clone(context: typer.Context) -> None:
        raise usage(
            f"{context.command_path}: not part of this installation; run it in a clone of the repository, "
            "after `make install`"
        )

    return app
