"""What the services of a stack declare, turned into bus users, in a process of its own.

Importing services loads everything they use; the supervisor lives long and must stay small, so it asks a child that
ends at once: `python -m muster.stack.declared SERVICE...` reads the settings and prints the users as JSON.
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
"""Those of a centre; every other service is a cluster's own."""
ANSWER_S_MAX = 60.0


class DeclarationError(Exception):
    """A service does not say what it does, so it can be given no rights."""


def declaration_of(service: str) -> Declaration:
    """`DECLARATION` of `muster.<service>.declaration`. Raises DeclarationError."""
    try:
        found = getattr(importlib.import_module(f"muster.{service}.declaration"), "DECLARATION", None)
    except ImportError as error:
        raise DeclarationError(f"service {service!r} cannot be imported: {error}") from error
    if not isinstance(found, Declaration) or found.service != service:
        raise DeclarationError(f"muster.{service}.declaration.DECLARATION is not the Declaration of {service!r}")
    return found


def services_of(settings: Settings) -> tuple[str, ...]:
    """The services that run on this broker, in their order."""
    match settings.role:
        case "whole":
            return SERVICES
        case "centre":
            return tuple(name for name in SERVICES if name in CENTRE_SERVICES)
        case "cell":
            return tuple(name for name in SERVICES if name not in CENTRE_SERVICES)


def users_of_bus(declarations: Iterable[Declaration], settings: Settings) -> tuple[BusUser, ...]:
    """Every user of this broker; in a centre also those that stand for the brokers of its cells."""
    webhooks = [webhook.name for webhook in settings.webhooks]
    users = bus_users(declarations, clusters=settings.clusters, copies=settings.role == "centre", webhooks=webhooks)
    cells = settings.clusters if settings.role == "centre" else ()
    kept = [webhook_consumer(name) for name in webhooks]
    return (*users, *(cell_user(cluster, kept=kept) for cluster in cells))


def dump_users(users: Sequence[BusUser]) -> str:
    """Users as JSON."""
    return json.dumps([asdict(user) for user in users])


def load_users(text: str | bytes) -> tuple[BusUser, ...]:
    """Users from JSON."""
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
    """Every user of a stack of these services, asked from a child.

    Raises DeclarationError, also where a service cannot work with these settings: it says so before anything starts.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *services,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            answer, complaint = await child.communicate(settings.model_dump_json().encode())
    except TimeoutError:
        raise DeclarationError(f"the services did not say within {ANSWER_S_MAX:g} s what they do") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        raise DeclarationError(complaint.decode(errors="replace").strip()[-2000:])
    return load_users(answer)


def check_settings(service: str, settings: Settings) -> None:
    """Call `check` of `muster.<service>.declaration`, if it has one. Raises what that raises."""
    check = getattr(importlib.import_module(f"muster.{service}.declaration"), "check", None)
    if callable(check):
        check(settings)


def main(services: Sequence[str], settings: str) -> int:
    """Print the users; 1 and a line on stderr if a service cannot be asked, or not work with these settings."""
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
    gc.disable()  # it imports, prints and ends
    sys.exit(main(sys.argv[1:], sys.stdin.read()))
