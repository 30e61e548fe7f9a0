"""`muster template`: named jobs of this user, for `muster submit --template`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, Yes

app = typer.Typer(
    name="template", help="Named job templates of this user, for `submit --template NAME`.", no_args_is_help=True
)
template_name = values.own_name("template's name")
_Name = Annotated[str, typer.Argument(help="Name of the template.", metavar="NAME", callback=template_name)]


@app.command()
def save(
    *,
    name: _Name,
    file: Annotated[Path, typer.Argument(help="YAML or JSON of one job; `-` reads standard input.", metavar="FILE")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the template of this name.")] = False,
) -> None:
    """Check a job file, and keep it as a template."""
    from muster.cli import templates

    templates.save(name, file, replace=replace)


@app.command("list")
def list_all(*, output: As = Output.TABLE) -> None:
    """Show the templates."""
    from muster.cli import templates

    templates.show_all(output)


@app.command()
def show(*, name: _Name, output: As = Output.TABLE) -> None:
    """Print a template, as YAML or with `-o json` as JSON."""
    from muster.cli import templates

    templates.show(name, output)


@app.command()
def rm(*, name: _Name, yes: Yes = False) -> None:
    """Remove a template."""
    from muster.cli import templates

    templates.remove(name, yes=yes)
