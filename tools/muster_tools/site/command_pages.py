"""The command line as a page: every command of the tree with its arguments and options, as `--help` tells them."""

import inspect
from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from muster_tools.site.markdown import code, paragraphs, prose, table

Command = TyperCommand | TyperGroup
HIDDEN = frozenset({"--help", "--install-completion", "--show-completion"})


def page(root: Command, *, name: str) -> str:
    """One page for the whole tree. root: as `typer.main.get_command` makes it."""
    parts = [f"# The command line\n\n{_told(root)}\n"]
    parts += [_section(path, command) for path, command in commands(root, name)]
    return "\n".join(parts)


def commands(command: Command, path: str) -> Iterator[tuple[str, Command]]:
    """Yield every command that acts, with the words that call it; a group only if it acts without a subcommand."""
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, below in sorted(command.commands.items()):
        assert isinstance(below, TyperCommand | TyperGroup), f"{path} {name} is no command of typer"
        if not below.hidden:
            yield from commands(below, f"{path} {name}")


def _section(path: str, command: Command) -> str:
    context = typer.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    options = [one for one in command.params if isinstance(one, TyperOption) and not HIDDEN & set(one.opts)]
    parts = [f"## {path}\n\n```text\n{usage}\n```\n\n{_told(command)}\n"]
    for heading, parameters in (("argument", arguments), ("option", options)):
        records = [one.get_help_record(context) for one in parameters]
        rows = [(code(record[0]), prose(record[1])) for record in records if record is not None]
        if rows:
            parts.append(table((heading, ""), rows))
    return "\n".join(parts)


def _told(command: Command) -> str:
    return paragraphs(inspect.cleandoc(command.help or "").partition("\f")[0])
