"""API tokens, made and revoked by an admin."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from muster.cli import output
from muster.cli.errors import usage
from muster.cli.jobfile import sentence
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.cli.session import call
from muster.schemas.access import Role, TokenRecord


def create(state_dir: Path, form: Output, *, principal: str, role: str, teams: Sequence[str]) -> None:
    """Make a token and print it. Raises CliError."""
    if role not in {known.value for known in Role}:
        raise usage(f"--role: {role!r} is none of {', '.join(known.value for known in Role)}")
    if role == Role.SUBMITTER and not teams:
        raise usage("--team: a submitter needs at least one team; name it with --team")
    try:
        wanted = TokenRecord(principal=principal, role=Role(role), teams=tuple(teams))
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
    rows = ((one.id, one.principal, one.role.value, ",".join(one.teams)) for one in found)
    output.table(("TOKEN_ID", "PRINCIPAL", "ROLE", "TEAMS"), rows)


def revoke(state_dir: Path, token_id: str) -> None:
    """Make a token worthless. Raises CliError."""
    call(state_dir, lambda muster: muster.revoke_token(token_id))
    print_line(f"{token_id}: revoked")
