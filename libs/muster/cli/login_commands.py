"""`muster login` and `muster whoami`: a token from an identity provider, and who one is with it."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(login)
    app.command()(whoami)


def login(
    *,
    issuer: Annotated[str, typer.Option(envvar="MUSTER_OIDC_ISSUER", help="The identity provider's issuer.")],
    client_id: Annotated[
        str, typer.Option(envvar="MUSTER_OIDC_CLIENT_ID", help="The command line's client id at the provider.")
    ],
    state_dir: StateDir,
    scope: Annotated[
        str, typer.Option(envvar="MUSTER_OIDC_SCOPE", help="Scopes to ask for, with spaces between them.")
    ] = "openid offline_access",
    audience: Annotated[
        str, typer.Option(envvar="MUSTER_OIDC_AUDIENCE", help="Audience to ask for, where the provider wants one.")
    ] = "",
    id_token: Annotated[
        bool, typer.Option("--id-token", help="Use the ID token in place of the access token.")
    ] = False,
    issuer_ca_file: Annotated[
        Path | None, typer.Option(help="CA certificates that verify the provider.", dir_okay=False, exists=True)
    ] = None,
) -> None:
    """Log in at an identity provider by a code that you enter in any browser; later commands with --url use it."""
    from muster.cli import logging_in

    logging_in.login(
        state_dir,
        issuer=issuer,
        client_id=client_id,
        scope=scope,
        audience=audience,
        id_token=id_token,
        ca_file=issuer_ca_file,
    )


def whoami(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the name, role and teams that the gateway knows you by."""
    from muster.cli import logging_in

    logging_in.whoami(state_dir, output)
