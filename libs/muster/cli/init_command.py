"""`muster init`: what must be there before a stack whose parts run apart can work, such as the one of compose/."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import StateDir


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(_init)


_init = typer.Typer(
    name="init",
    help="Prepare a stack whose parts run apart, each in a container: files, then the bus, then the first queues.",
    no_args_is_help=True,
)


_HttpUrl = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_INIT_HTTP_URL", help="The gateway, as browsers reach it.", callback=values.url("http", "https")
    ),
]
_WebsocketUrl = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_INIT_WEBSOCKET_URL", help="NATS, as browsers reach it.", callback=values.url("ws", "wss")
    ),
]
_NatsUrl = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_INIT_NATS_URL",
        help="NATS, as the admin's machine reaches it.",
        callback=values.url("nats", "tls"),
    ),
]


@_init.command("files")
def files(
    *,
    into: Annotated[Path, typer.Option(help="A directory per part is made in it.", file_okay=False)],
    settings: Annotated[
        Path | None, typer.Option(help="YAML: sections of the settings, such as `fleet`.", dir_okay=False, exists=True)
    ] = None,
    http_url: _HttpUrl = "http://127.0.0.1:8080",
    websocket_url: _WebsocketUrl = "ws://127.0.0.1:9222",
    nats_url: _NatsUrl = "nats://127.0.0.1:4222",
) -> None:
    """Make keys, credentials, passwords, the admin's token and every part's settings. Again: keys and token stay."""
    from muster.cli import initialising

    initialising.files(into, settings_file=settings, http_url=http_url, websocket_url=websocket_url, nats_url=nats_url)


@_init.command("kubernetes")
def kubernetes(
    *,
    into: Annotated[Path, typer.Option(help="A directory per part is made in it; keep it private.", file_okay=False)],
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML: sections of the settings, such as `kubernetes`.", dir_okay=False, exists=True),
    ] = None,
    http_url: _HttpUrl = "http://127.0.0.1:8080",
    websocket_url: _WebsocketUrl = "ws://127.0.0.1:9222",
    nats_url: _NatsUrl = "nats://127.0.0.1:4222",
) -> None:
    """Make the same for a stack in Kubernetes, and the kustomization that makes a Secret of each part's."""
    from muster.cli import initialising

    initialising.kubernetes(
        into, settings_file=settings, http_url=http_url, websocket_url=websocket_url, nats_url=nats_url
    )


_Patience = Annotated[float, typer.Option(min=0.1, max=600, help="How long the other side may take to be there.")]


@_init.command("bus")
def bus(
    *,
    state_dir: StateDir,
    patience_s: _Patience = 60.0,
    cells_later: Annotated[
        bool, typer.Option("--cells-later", help="Of a centre: leave out what is taken from its cells.")
    ] = False,
) -> None:
    """Make the streams, and enter the admin's token. Again: what is missing is made, the rest stays."""
    from muster.cli import initialising

    initialising.bus(state_dir, patience_s=patience_s, cells_later=cells_later)


@_init.command("queues")
def queues(
    *,
    state_dir: StateDir,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="By default examples/queues.yaml.", dir_okay=False)
    ] = None,
    patience_s: _Patience = 120.0,
) -> None:
    """Ask for the first queues, if there are none yet."""
    from muster.cli import initialising

    initialising.queues(state_dir, file, patience_s=patience_s)
