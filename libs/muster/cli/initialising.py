"""Prepare a distributed stack: the implementation of `muster init`."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from muster.bus.clock import SystemTime
from muster.bus.connection import CredentialsError
from muster.bus.ports import LogError
from muster.bus.settings import Settings, with_variables
from muster.cli.bus_session import settings_of
from muster.cli.errors import CliError, ExitCode, refused, unreachable, usage
from muster.cli.examples_dir import queue_file
from muster.cli.files import read_text
from muster.cli.jobfile import sentence
from muster.cli.output import print_line
from muster.cli.queue_tree import load_queues
from muster.cli.session import connected
from muster.cli.starting import set_queues
from muster.core.instant import NS_PER_S
from muster.core.yaml_text import YamlLimits, yaml_value
from muster.stack import in_kubernetes
from muster.stack.declared import DeclarationError
from muster.stack.entering import NoBrokerError, enter
from muster.stack.parts import Layout
from muster.stack.provision import provision
from muster.stack.state_dir import StateDir

GATEWAY_POLL_S = 0.25
LIMITS = YamlLimits(characters=1024 * 1024)


def files(into: Path, *, settings_file: Path | None, http_url: str, websocket_url: str, nats_url: str) -> None:
    """Write the directory of each service. Raises CliError."""
    layout = Layout(http_url=http_url, websocket_url=websocket_url, nats_url=nats_url)
    with _told(into):
        names = provision(into, layout, _settings(settings_file, layout), now_s=SystemTime().wall() // NS_PER_S)
    print_line(f"{into}: {', '.join(sorted(names))}")


def kubernetes(into: Path, *, settings_file: Path | None, http_url: str, websocket_url: str, nats_url: str) -> None:
    """Write the directory of each service and the kustomization of their Secrets. Raises CliError."""
    layout = Layout(http_url=http_url, websocket_url=websocket_url, nats_url=nats_url, flat=True)
    with _told(into):
        settings = _settings(settings_file, layout)
        names = in_kubernetes.write(into, layout, settings, now_s=SystemTime().wall() // NS_PER_S)
    print_line(f"{into / in_kubernetes.KUSTOMIZATION}: {', '.join(names)}")


@contextmanager
def _told(into: Path) -> Iterator[None]:
    """Convert errors of writing into errors of the command line."""
    try:
        yield
    except ValidationError as error:
        raise usage(f"settings: {sentence(error)}") from error
    except (DeclarationError, ValueError) as error:
        raise refused(str(error)) from error
    except OSError as error:
        raise refused(f"--into: {error.filename or into} cannot be read or written ({error.strerror})") from error


def _settings(file: Path | None, layout: Layout) -> Settings:
    """Return the settings of the file, with MUSTER_* variables applied. Raises CliError, pydantic.ValidationError."""
    values: object = {}
    if file is not None:
        try:
            values = yaml_value(read_text(file, bytes_max=LIMITS.characters, form="YAML file"), LIMITS) or {}
        except ValueError as error:
            raise usage(f"--settings: {file}: {error}") from error
    if not isinstance(values, dict):
        raise usage(f"--settings: {file} must contain sections of the settings, such as `fleet:`")
    asked = with_variables(cast("dict[str, object]", values), os.environ)
    return Settings.model_validate({**asked, "state_dir": layout.home, "credentials_dir": layout.home})


def bus(state_dir: Path, *, patience_s: float, cells_later: bool = False) -> None:
    """Create the streams and the token record. cells_later: `alone` of `bootstrap`. Raises CliError."""
    settings = settings_of(state_dir)
    try:
        token = StateDir(state_dir).token.read_text().strip()
        asyncio.run(enter(settings, token=token, patience_s=patience_s, alone=cells_later))
    except OSError as error:
        raise unreachable(f"{error.filename or settings.nats_url}: {error.strerror}") from error
    except NoBrokerError as error:
        raise unreachable(str(error)) from error
    except (CredentialsError, LogError) as error:
        raise refused(str(error)) from error
    print_line(f"{settings.nats_url}: the streams of cluster {settings.cluster} and the admin token exist")


def queues(state_dir: Path, file: Path | None, *, patience_s: float) -> None:
    """Create queues if there are none. Raises CliError."""
    path = file or queue_file()
    if path is None:
        raise usage("--file: this installation has no examples; give a queue file")
    load_queues(path)
    made = asyncio.run(_ask_for_queues(state_dir, path, patience_s=patience_s))
    print_line(f"queues of {path.name} created" if made else "there are queues already; none was created")


async def _ask_for_queues(state_dir: Path, path: Path, *, patience_s: float) -> bool:
    """Return whether queues were created. Raises CliError."""
    said: CliError | None = None
    try:
        async with asyncio.timeout(patience_s):
            while True:
                try:
                    async with connected(state_dir) as muster:
                        if await muster.queues():
                            return False
                        await set_queues(muster, path)
                        return True
                except CliError as error:
                    if error.code is not ExitCode.UNREACHABLE:
                        raise
                    said = error
                await asyncio.sleep(GATEWAY_POLL_S)
    except TimeoutError:
        last = f" ({said})" if said else ""
        raise unreachable(
            f"--state-dir: the gateway of {state_dir} did not answer within {patience_s:g} s{last}"
        ) from said
