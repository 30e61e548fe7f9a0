"""Commands for the schemas of messages: `muster schemas`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.errors import refused
from muster.cli.output import print_line

app = typer.Typer(name="schemas", help="Export the schemas of all messages.", no_args_is_help=True)

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Output directory. Default: proto-schemas of the checkout.", file_okay=False),
]
Check = Annotated[bool, typer.Option("--check", help="Write nothing; exit code 3 if the files differ from the code.")]
Breaking = Annotated[bool, typer.Option("--allow-breaking", help="Allow incompatible changes of facts.")]


@app.callback()
def schemas() -> None:
    """Export the schemas of all messages."""


@app.command()
def export(out: Out = None, check: Check = False, allow_breaking: Breaking = False) -> None:
    """Write a JSON Schema per fact and an AsyncAPI document per service. Incompatible changes are refused."""
    from muster.cli import schema_files

    directory = out or schema_files.checkout_directory()
    plan = schema_files.planned()
    if not check:
        changed = schema_files.write(directory, plan, allow_breaking=allow_breaking)
        print_line(f"{directory}: {len(plan)} files, {changed} changed")
        return
    found = schema_files.difference(directory, plan)
    if not found.is_none:
        raise refused("\n  ".join([f"{directory} differs from the code", *found.lines()]))
    print_line(f"{directory}: {len(plan)} files match the code")
