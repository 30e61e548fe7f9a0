"""The declarations of a stack's services, turned into bus users, in a separate process.

Importing services loads everything they use; the supervisor lives long and must stay small, so it runs a short-lived
child: `python -m muster.stack.declared SERVICE...` reads the settings and prints the users as JSON.
"""

import asyncio
import gc
import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import cast

from muster.bus.access import AccountName, BusUser, Rights, bus_users
from muster.bus.declaration import Declaration
from muster.bus.leaf import cell_user
from muster.bus.names import webhook_consumer
from muster.bus.settings import Settings

SERVICES = (
    "gateway", "federation", "scheduler", "agent", "scaler", "composer", "projector", "notifier", "guard",
    "telemetry", "health", "upgrader",
)  # fmt: skip
CENTRE_SERVICES = frozenset({"gateway", "federation", "projector", "notifier"})
"""Services of a center; every other service belongs to a cluster."""
ANSWER_S_MAX = 60.0


class DeclarationError(Exception):
    """A service has no valid declaration, so it cannot be granted permissions."""


def declaration_of(service: str) -> Declaration:
    """Return `DECLARATION` of `muster.<service>.declaration`. Raises DeclarationError."""
    try:
        found = getattr(importlib.import_module(f"muster.{service}.declaration"), "DECLARATION", None)
    except ImportError as error:
        raise DeclarationError(f"service {service!r} cannot be imported: {error}") from error
    if not isinstance(found, Declaration) or found.service != service:
        raise DeclarationError(f"muster.{service}.declaration.DECLARATION is not a Declaration of {service!r}")
    return found


def services_of(settings: Settings) -> tuple[str, ...]:
    """Return the services that run on this broker, in their order."""
    match settings.role:
        case "whole":
            return SERVICES
        case "centre":
            return tuple(name for name in SERVICES if name in CENTRE_SERVICES)
        case "cell":
            return tuple(name for name in SERVICES if name not in CENTRE_SERVICES)


def users_of_bus(declarations: Iterable[Declaration], settings: Settings) -> tuple[BusUser, ...]:
    """Return every user of this broker; in a center also those of the brokers of its cells."""
    webhooks = [webhook.name for webhook in settings.webhooks]
    users = bus_users(declarations, clusters=settings.clusters, copies=settings.role == "centre", webhooks=webhooks)
    cells = settings.clusters if settings.role == "centre" else ()
    kept = [webhook_consumer(name) for name in webhooks]
    return (*users, *(cell_user(cluster, kept=kept) for cluster in cells))


def dump_users(users: Sequence[BusUser]) -> str:
    """Return users as JSON."""
    return json.dumps([asdict(user) for user in users])


def load_users(text: str | bytes) -> tuple[BusUser, ...]:
    """Return users from JSON."""
    rows = cast("list[dict[str, object]]", json.loads(text))
    users = []
    for row in rows:
        rights = cast("dict[str, list[str]]", row["rights"])
        users.append(
            BusUser(
                str(row["name"]),
                AccountName(str(row["account"])),
                Rights(tuple(rights["publish"]), tuple(rights["subscribe"]), tuple(rights["withheld"])),
                cell=str(row["cell"]),
            )
        )
    return tuple(users)


async def declared_users(services: Sequence[str], settings: Settings) -> tuple[BusUser, ...]:
    """Return every user of a stack with these services, computed by a child process.

    Raises DeclarationError, also where a service rejects these settings, before any process starts.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *services,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            answer, complaint = await child.communicate(settings.model_dump_json().encode())
    except TimeoutError:
        raise DeclarationError(f"reading the services' declarations timed out after {ANSWER_S_MAX:g} s") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        raise DeclarationError(complaint.decode(errors="replace").strip()[-2000:])
    return load_users(answer)


def check_settings(service: str, settings: Settings) -> None:
    """Call `check` of `muster.<service>.declaration`, if it has one. Raises the errors of that function."""
    check = getattr(importlib.import_module(f"muster.{service}.declaration"), "check", None)
    if callable(check):
        check(settings)


def main(services: Sequence[str], settings: str) -> int:
    """Print the users; return 1, with a line on stderr, if a declaration or the settings are invalid."""
    try:
        read = Settings.model_validate_json(settings)
        users = users_of_bus(map(declaration_of, services), read)
        for service in services:
            check_settings(service, read)
    except (DeclarationError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(dump_users(users))
    return 0


if __name__ == "__main__":
    gc.disable()  # the process is short-lived
    sys.exit(main(sys.argv[1:], sys.stdin.read()))
