"""`muster token`: who may speak to the API, in which role."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, StateDir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.schemas.access import TokenRecord

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
    team: Annotated[
        list[str] | None, typer.Option(help="Teams that a submitter may submit for; repeat.", callback=values.team)
    ] = None,
    expires_in: Annotated[
        str, typer.Option(help="Time until the token is refused, for example 12h or 90d; by default never.")
    ] = "",
    output: As = Output.TABLE,
) -> None:
    """Create a token and print it once; only its hash is kept."""
    from muster.cli.output import emitted, print_line, print_note
    from muster.cli.session import call

    wanted = _record(principal, role, team or [], expires_in)
    made = call(state_dir, lambda muster: muster.make_token(wanted))
    if emitted(made, output):
        return
    print_line(made.token)
    print_note("keep it: it is shown this once; its id is " + made.id)


@app.command("list")
def list_tokens(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show who has tokens, by hash; the tokens themselves are kept nowhere."""
    from muster.bus.clock import SystemTime
    from muster.cli.output import emitted, table
    from muster.cli.session import call

    found = call(state_dir, lambda muster: muster.tokens())
    if emitted(found, output):
        return
    now_ns = SystemTime().wall()
    rows = ((one.id, one.principal, one.role.value, ",".join(one.teams), _end(one, now_ns=now_ns)) for one in found)
    table(("TOKEN_ID", "PRINCIPAL", "ROLE", "TEAMS", "EXPIRES"), rows)


@app.command()
def revoke(
    *,
    token_id: Annotated[
        str,
        typer.Argument(help="A token's id, as `token list` shows it.", metavar="TOKEN_ID", callback=values.token_id),
    ],
    state_dir: StateDir,
) -> None:
    """Make a token worthless from now on."""
    from muster.cli.output import print_line
    from muster.cli.session import call

    call(state_dir, lambda muster: muster.revoke_token(token_id))
    print_line(f"{token_id}: revoked")


def _record(principal: str, role: str, teams: "Sequence[str]", expires_in: str) -> "TokenRecord":
    """Return the token that the options mean. Raises CliError that names the option."""
    from pydantic import ValidationError

    from muster.bus.clock import SystemTime
    from muster.cli import moments
    from muster.cli.jobfile import sentence
    from muster.core.instant import NS_PER_S
    from muster.schemas.access import Role, TokenRecord

    if role not in {known.value for known in Role}:
        raise usage(f"--role: {role!r} is none of {', '.join(known.value for known in Role)}")
    if role == Role.SUBMITTER and not teams:
        raise usage("--team: a submitter needs at least one team; name it with --team")
    expires_at_s = None
    if expires_in:
        expires_at_s = SystemTime().wall() // NS_PER_S + round(moments.length_s(expires_in, option="--expires-in"))
    try:
        return TokenRecord(principal=principal, role=Role(role), teams=tuple(teams), expires_at_s=expires_at_s)
    except ValidationError as error:
        raise usage(sentence(error)) from error


def _end(token: "TokenRecord", *, now_ns: int) -> str:
    from muster.cli import moments
    from muster.core.instant import NS_PER_S

    return "never" if token.expires_at_s is None else moments.when(token.expires_at_s * NS_PER_S, now_ns=now_ns)
