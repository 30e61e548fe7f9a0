"""Selection of the driver that a fabric's settings name."""

import logging
import ssl
from collections.abc import Iterable
from typing import NoReturn

import httpx

from muster.bus.settings import FabricSettings
from muster.fabric import bounds
from muster.fabric.checked import CheckedDriver
from muster.fabric.cm import ClusterManager
from muster.fabric.driver import AttachOrder, DetachOrder, FabricDriver, FabricUnavailableError
from muster.fabric.fm import FabricManager
from muster.fabric.http import ManagerHttp
from muster.fabric.nec import LayoutApply
from muster.fabric.sunfish import Redfish
from muster.fabric.token import PasswordGrant, read_credentials, trust


def open_driver(
    fabric: FabricSettings, *, models: Iterable[tuple[str, str]] = (), client: httpx.AsyncClient | None = None
) -> FabricDriver:
    """Open a driver that validates responses, over connections of its own or `client`. The caller closes it.

    No request is sent yet. models: (type, model) pairs that the fabric may hold: some managers count their pool only
    per model. Raises CredentialsError, and ValueError if `url` is missing or the driver does not use one.
    """
    if not fabric.url:
        raise ValueError(f"fabrics: {fabric.name}: url is empty; give the base address of its manager's API")
    credentials = read_credentials(fabric.credentials) if fabric.credentials is not None else None
    if client is None:
        client = new_client(limit=fabric.limit, verify=trust(credentials) if fabric.url.startswith("https:") else True)
    tokens = PasswordGrant(fabric.url, client, credentials) if credentials is not None else None
    http = ManagerHttp(fabric.url, client, tokens)
    models = tuple(models)
    manager = FabricManager(http, tenant=fabric.tenant, call_s=fabric.call_s, models=models)
    return CheckedDriver(_driver(fabric, http, manager), types=(kind for kind, _ in models))


def _driver(fabric: FabricSettings, http: ManagerHttp, manager: FabricManager) -> FabricDriver:
    match fabric.driver:
        case "fm":
            return manager
        case "cm":
            return ClusterManager(
                http, inventory=manager, tenant=fabric.tenant, cluster=fabric.cluster_id, call_s=fabric.call_s
            )
        case "nec":
            return LayoutApply(http, call_s=fabric.call_s)
        case "sunfish":
            return Redfish(http, call_s=fabric.call_s)
        case "operator":
            raise ValueError(f"fabrics: {fabric.name}: driver operator has no manager with an address")


def new_client(*, limit: int, verify: ssl.SSLContext | bool = True) -> httpx.AsyncClient:
    """Create the connections of one fabric: they follow no redirect, and ignore proxies of the environment.

    limit: maximum number of concurrent calls, surveys not included.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else it logs every request, several a second while polling
    connections = limit + bounds.SURVEY_PARALLEL
    return httpx.AsyncClient(
        verify=verify,
        trust_env=False,
        follow_redirects=False,
        headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "muster"},
        timeout=httpx.Timeout(None, connect=bounds.CONNECT_S),
        limits=httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=bounds.IDLE_S
        ),
    )


class UnopenedDriver:
    """A driver for a fabric with invalid settings: every call reports the error, and nothing is sent."""

    parallel_max = 1

    def __init__(self, why: str) -> None:
        self._why = why

    async def attach(self, order: AttachOrder) -> NoReturn:  # noqa: ARG002 - the port
        """Raise FabricUnavailableError with the error in the settings."""
        raise FabricUnavailableError(self._why)

    async def detach(self, order: DetachOrder) -> NoReturn:  # noqa: ARG002 - the port
        """Raise FabricUnavailableError with the error in the settings."""
        raise FabricUnavailableError(self._why)

    async def survey(self) -> NoReturn:
        """Raise FabricUnavailableError with the error in the settings."""
        raise FabricUnavailableError(self._why)

    async def close(self) -> None:
        """Do nothing: no connection is open."""
