"""Commands for API tokens: `muster token`."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, StateDir, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.schemas.access import TokenRecord

app = typer.Typer(name="token", help="Create, list and revoke API tokens.", no_args_is_help=True)


@app.callback()
def token() -> None:
    """Create, list and revoke API tokens."""


@app.command()
def create(
    *,
    principal: Annotated[str, typer.Argument(help="Name of the token's user, recorded in the log.")],
    state_dir: StateDir,
    role: Annotated[str, typer.Option(help="Role: viewer, submitter, operator or admin.")] = "submitter",
    team: Annotated[
        list[str] | None, typer.Option(help="Team that a submitter may submit for; repeat.", callback=values.team)
    ] = None,
    expires_in: Annotated[str, typer.Option(help="Lifetime, such as 12h or 90d. Default: unlimited.")] = "",
    output: As = Output.TABLE,
) -> None:
    """Create a token and print it. Only its hash is stored, so it cannot be printed again."""
    from muster.cli.output import emitted, print_line, print_note
    from muster.cli.session import call

    wanted = _record(principal, role, team or [], expires_in)
    made = call(state_dir, lambda muster: muster.make_token(wanted))
    if emitted(made, output):
        return
    print_line(made.token)
    print_note("store the token now: it cannot be shown again; its id is " + made.id)


@app.command("list")
@listing
def list_tokens(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List tokens by their hash, with user, role, teams and expiry."""
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
        typer.Argument(help="Token id, as `muster token list` shows it.", metavar="TOKEN_ID", callback=values.token_id),
    ],
    state_dir: StateDir,
) -> None:
    """Revoke a token immediately."""
    from muster.cli.output import print_line
    from muster.cli.session import call

    call(state_dir, lambda muster: muster.revoke_token(token_id))
    print_line(f"{token_id}: revoked")


def _record(principal: str, role: str, teams: "Sequence[str]", expires_in: str) -> "TokenRecord":
    """Return the token record of the options. Raises CliError that names the option."""
    from pydantic import ValidationError

    from muster.bus.clock import SystemTime
    from muster.cli import moments
    from muster.cli.jobfile import sentence
    from muster.core.instant import NS_PER_S
    from muster.schemas.access import Role, TokenRecord

    if role not in {known.value for known in Role}:
        raise usage(f"--role: {role!r} is not a role; use one of {', '.join(known.value for known in Role)}")
    if role == Role.SUBMITTER and not teams:
        raise usage("--team: a submitter needs at least one team; give --team TEAM")
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
