"""A centre's broker and a cell's, bootstrapped and joined by a link, without any services."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from kit.servers import DECLARATIONS, NatsServer
from kit.stack.links import Link, linked
from kit.waiting import until_async
from muster.bus import jsapi
from muster.bus.access import AccountName, BusUser, Rights, bus_users
from muster.bus.leaf import cell_user, cell_user_name
from muster.bus.names import CENTRE_DOMAIN
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.schemas.subjects import cluster_log
from muster.stack.keys import mint_access
from muster.stack.nats_server import Leaf, NatsConfig
from muster.stack.ports import LOOPBACK, free_port
from muster.stack.probes import leaf_nodes

CELL = "east"
KEPT = "webhook-pager"
"""A consumer of the centre's own on FED, by its name."""
ANYBODY = BusUser("anybody", AccountName.LOG, Rights((">",), (">",)))
"""Who may do everything on its own broker: what it cannot do across the link, nobody can."""


class Joined:
    """Both brokers. link: between them."""

    def __init__(self, centre: NatsServer, cell: NatsServer, link: Link, settings: dict[str, Settings]) -> None:
        self.centre = centre
        self.cell = cell
        self.link = link
        self.settings = settings

    async def bootstrap(self, *, alone: bool = False) -> None:
        """Make the streams on both, in the order of a first start."""
        for server, settings, left_out in (
            (self.centre, self.settings["centre"], True),
            (self.cell, self.settings["cell"], False),
            (self.centre, self.settings["centre"], alone),
        ):
            client = await server.connect("bootstrap")
            await bootstrap(client, settings, alone=left_out)
            await client.close()

    async def copied(self, count: int) -> None:
        """Wait until the centre's copy of the cell's log has so many messages."""
        client = await self.centre.connect("reader")

        async def has_them() -> bool:
            info = await jsapi.stream_info(client, cluster_log(CELL).stream)
            return info is not None and info.state.messages >= count

        await until_async(has_them)
        await client.close()


@asynccontextmanager
async def joined(directory: Path) -> AsyncIterator[Joined]:
    """Two brokers in operator mode, each with keys of its own."""
    leaf_port = free_port()
    async with linked(target=leaf_port) as link:
        user = cell_user(CELL, kept=(KEPT,))
        centre = _server(directory / "centre", (user,), domain=CENTRE_DOMAIN, leaf_port=leaf_port)
        credentials = centre.credentials(cell_user_name(CELL))
        cell = _server(directory / CELL, (), domain=CELL, leaf=(f"nats-leaf://{LOOPBACK}:{link.port}", credentials))
        started: list[NatsServer] = []
        try:
            for server in (centre, cell):
                server.start()
                started.append(server)
            await until_async(lambda: _is_joined(centre.config.monitor_port))
            yield Joined(centre, cell, link, {"centre": _settings(centre, "centre"), "cell": _settings(cell, "cell")})
        finally:
            for server in started:
                server.stop()


async def _is_joined(monitor_port: int) -> bool:
    return await leaf_nodes(monitor_port) == 1


def _settings(server: NatsServer, role: str) -> Settings:
    return Settings.model_validate(
        {
            "role": role,
            "cluster": CELL,
            "state_dir": server.directory,
            "credentials_dir": server.credentials_dir,
            "nats_url": server.url,
            "federation": {"clusters": [{"name": CELL}]},
        }
    )


def _server(
    directory: Path,
    more: Sequence[BusUser],
    *,
    domain: str,
    leaf_port: int | None = None,
    leaf: tuple[str, Path] | None = None,
) -> NatsServer:
    users = (*bus_users(DECLARATIONS, clusters=(CELL,), copies=domain == CENTRE_DOMAIN), ANYBODY, *more)
    access = mint_access(
        keys_dir=directory / "keys", credentials_dir=directory / "creds", users=users, now_s=int(time.time())
    )
    config = NatsConfig(
        port=free_port(),
        monitor_port=free_port(),
        store_dir=directory / "store",
        access=access,
        domain=domain,
        leaf_port=leaf_port,
        leaf=Leaf(leaf[0], access.log_account, leaf[1]) if leaf is not None else None,
    )
    return NatsServer(directory, config, users)
