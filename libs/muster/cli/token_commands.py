"""`muster token`: who may speak to the API, in which role."""

from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir

app = typer.Typer(name="token", help="API tokens: viewer, submitter of a team, operator, admin.", no_args_is_help=True)


@app.callback()
def token() -> None:
    """API tokens: viewer, submitter of a team, operator, admin."""


@app.command()
def create(
    *,
    principal: Annotated[str, typer.Argument(help="Whose token it is; facts name the principal.")],
    state_dir: StateDir,
    role: Annotated[str, typer.Option(help="viewer, submitter, operator or admin.")] = "submitter",
    team: Annotated[list[str] | None, typer.Option(help="Teams that a submitter may submit for; repeat.")] = None,
    expires_in: Annotated[
        str, typer.Option(help="Time until the token is refused, for example 12h or 90d; by default never.")
    ] = "",
    output: As = Output.TABLE,
) -> None:
    """Create a token and print it once; only its hash is kept."""
    from muster.cli import tokens

    tokens.create(state_dir, output, principal=principal, role=role, teams=team or [], expires_in=expires_in)


@app.command("list")
def list_tokens(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show who has tokens, by hash; the tokens themselves are kept nowhere."""
    from muster.cli import tokens

    tokens.show(state_dir, output)


@app.command()
def revoke(
    *,
    token_id: Annotated[str, typer.Argument(help="A token's id, as `token list` shows it.", metavar="TOKEN_ID")],
    state_dir: StateDir,
) -> None:
    """Make a token worthless from now on."""
    from muster.cli import tokens

    tokens.revoke(state_dir, token_id)
