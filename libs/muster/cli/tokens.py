"""API tokens, made and revoked by an admin."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import usage
from muster.cli.jobfile import sentence
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.cli.session import call
from muster.core.instant import NS_PER_S
from muster.schemas.access import Role, TokenRecord


def create(
    state_dir: Path, form: Output, *, principal: str, role: str, teams: Sequence[str], expires_in: str = ""
) -> None:
    """Make a token and print it. Raises CliError."""
    if role not in {known.value for known in Role}:
        raise usage(f"--role: {role!r} is none of {', '.join(known.value for known in Role)}")
    if role == Role.SUBMITTER and not teams:
        raise usage("--team: a submitter needs at least one team; name it with --team")
    expires_at_s = None
    if expires_in:
        expires_at_s = SystemTime().wall() // NS_PER_S + round(moments.length_s(expires_in, option="--expires-in"))
    try:
        wanted = TokenRecord(principal=principal, role=Role(role), teams=tuple(teams), expires_at_s=expires_at_s)
    except ValidationError as error:
        raise usage(sentence(error)) from error
    made = call(state_dir, lambda muster: muster.make_token(wanted))
    if form is Output.JSON:
        output.emit_model(made)
        return
    print_line(made.token)
    print_note("keep it: it is shown this once; its id is " + made.id)


def show(state_dir: Path, form: Output) -> None:
    """All tokens, by id."""
    found = call(state_dir, lambda muster: muster.tokens())
    if form is Output.JSON:
        output.emit_models(found)
        return
    now_ns = SystemTime().wall()
    rows = ((one.id, one.principal, one.role.value, ",".join(one.teams), _end(one, now_ns=now_ns)) for one in found)
    output.table(("TOKEN_ID", "PRINCIPAL", "ROLE", "TEAMS", "EXPIRES"), rows)


def quota(state_dir: Path, form: Output) -> None:
    """The limits of the token that is used."""
    me = call(state_dir, lambda muster: muster.me())
    if form is Output.JSON:
        output.emit_model(me)
        return
    who = f"{me.principal} ({me.role.value}{' of ' + ', '.join(me.teams) if me.teams else ''})"
    if not me.limits:
        print_line(f"{who} has no limits")
        return
    print_line(who)
    rows = ((one.what, one.team or "-", str(one.per_min), str(one.burst), str(one.left)) for one in me.limits)
    output.table(("LIMIT", "TEAM", "PER_MIN", "AT_ONCE", "LEFT"), rows, right=("PER_MIN", "AT_ONCE", "LEFT"))


def _end(token: TokenRecord, *, now_ns: int) -> str:
    return "never" if token.expires_at_s is None else moments.when(token.expires_at_s * NS_PER_S, now_ns=now_ns)


def revoke(state_dir: Path, token_id: str) -> None:
    """Make a token worthless. Raises CliError."""
    call(state_dir, lambda muster: muster.revoke_token(token_id))
    print_line(f"{token_id}: revoked")
