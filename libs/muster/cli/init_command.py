"""Commands that prepare a distributed stack, such as that of compose/: `muster init`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import StateDir


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(_init)


_init = typer.Typer(
    name="init",
    help="Prepare a stack whose services run in containers: files, then the bus, then the first queues.",
    no_args_is_help=True,
)


_HttpUrl = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_INIT_HTTP_URL", help="Gateway URL, as browsers reach it.", callback=values.url("http", "https")
    ),
]
_WebsocketUrl = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_INIT_WEBSOCKET_URL",
        help="NATS WebSocket URL, as browsers reach it.",
        callback=values.url("ws", "wss"),
    ),
]
_NatsUrl = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_INIT_NATS_URL",
        help="NATS URL, as the machine of the admin reaches it.",
        callback=values.url("nats", "tls"),
    ),
]


@_init.command("files")
def files(
    *,
    into: Annotated[Path, typer.Option(help="Output directory; gets a subdirectory per service.", file_okay=False)],
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML file with sections of the settings, such as `fleet`.", dir_okay=False, exists=True),
    ] = None,
    http_url: _HttpUrl = "http://127.0.0.1:8080",
    websocket_url: _WebsocketUrl = "ws://127.0.0.1:9222",
    nats_url: _NatsUrl = "nats://127.0.0.1:4222",
) -> None:
    """Create keys, credentials, the admin token and the settings of each service. Existing keys and tokens are kept."""
    from muster.cli import initialising

    initialising.files(into, settings_file=settings, http_url=http_url, websocket_url=websocket_url, nats_url=nats_url)


@_init.command("kubernetes")
def kubernetes(
    *,
    into: Annotated[
        Path, typer.Option(help="Output directory; gets a subdirectory per service. Keep it private.", file_okay=False)
    ],
    settings: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with sections of the settings, such as `kubernetes`.", dir_okay=False, exists=True
        ),
    ] = None,
    http_url: _HttpUrl = "http://127.0.0.1:8080",
    websocket_url: _WebsocketUrl = "ws://127.0.0.1:9222",
    nats_url: _NatsUrl = "nats://127.0.0.1:4222",
) -> None:
    """Create the same for a stack in Kubernetes, and a kustomization with a Secret per service."""
    from muster.cli import initialising

    initialising.kubernetes(
        into, settings_file=settings, http_url=http_url, websocket_url=websocket_url, nats_url=nats_url
    )


_Patience = Annotated[float, typer.Option(min=0.1, max=600, help="Maximum time to wait for the server, in seconds.")]


@_init.command("bus")
def bus(
    *,
    state_dir: StateDir,
    patience_s: _Patience = 60.0,
    cells_later: Annotated[
        bool,
        typer.Option(
            "--cells-later", help="For the center of a federation: omit the streams sourced from its clusters."
        ),
    ] = False,
) -> None:
    """Create missing streams and the record of the admin token. Existing ones are kept."""
    from muster.cli import initialising

    initialising.bus(state_dir, patience_s=patience_s, cells_later=cells_later)


@_init.command("queues")
def queues(
    *,
    state_dir: StateDir,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Queue file. Default: examples/queues.yaml.", dir_okay=False)
    ] = None,
    patience_s: _Patience = 120.0,
) -> None:
    """Create the first queues, if there are none yet."""
    from muster.cli import initialising

    initialising.queues(state_dir, file, patience_s=patience_s)
