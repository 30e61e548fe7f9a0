"""Read credentials with the official client from a kubeconfig file or inside a cluster.

`kubernetes.aio` supports all logins: tokens and token files, client certificates, exec plugins, OpenID Connect. It is
asked again once a minute and after a 401, and used for nothing else.
Import this module only where a connection is opened: the official client costs 0.3 s and 13 MiB, and most processes
open none.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, cast

import yaml
from kubernetes.aio import config as official
from kubernetes.aio.client import Configuration

from muster.kube import bounds
from muster.kube.errors import KubeConfigError


class _Loader(Protocol):
    """The result of `load_kube_config`, which remembers when an exec plugin's answer expires."""

    async def load_and_set(self, client_configuration: Configuration) -> None: ...


class OfficialCredentials:
    """Credentials in the official client's configuration, which `load` fills from their source."""

    def __init__(self, load: Callable[[Configuration], Awaitable[None]], *, where: str) -> None:
        self.where = where
        self._load = load
        self._configuration = Configuration()
        self._loaded_s: float | None = None
        self._loading = asyncio.Lock()

    @property
    def url(self) -> str:
        """Return the API server's URL."""
        return str(self._configuration.host).rstrip("/")

    @property
    def proxy(self) -> str | None:
        """Return the URL of the HTTP proxy, None without one."""
        return self._configuration.proxy

    @property
    def server_name(self) -> str | None:
        """Return the name in the server's certificate, if it is not the host's."""
        return self._configuration.tls_server_name

    async def authorization(self) -> str:
        """Return the value of the header Authorization, "" without one."""
        await self._fresh()
        return self._configuration.api_key.get("BearerToken", "")

    async def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, None for plain HTTP. Raises KubeConfigError."""
        await self._fresh()
        if not self.url.startswith("https:"):
            return None
        try:
            return await asyncio.to_thread(_context, self._configuration)
        except (OSError, ssl.SSLError) as error:
            raise KubeConfigError(f"{self.where}: its certificates cannot be read: {error}") from error

    def reject(self) -> None:
        """Load the credentials again before the next use: the server rejected them."""
        self._loaded_s = None

    async def _fresh(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._loaded_s is not None and now_s - self._loaded_s < bounds.CREDENTIALS_AGE_S:
            return
        async with self._loading:
            if self._loaded_s is not None and now_s <= self._loaded_s:
                return  # another request refreshed them meanwhile
            await self._load(self._configuration)
            self._loaded_s = asyncio.get_running_loop().time()


async def from_kubeconfig(path: Path, *, context: str = "") -> OfficialCredentials:
    """Return the credentials of a kubeconfig's context, or of its current one. Raises KubeConfigError."""
    where = f"kubeconfig {path}"
    if not await asyncio.to_thread(path.is_file):
        raise KubeConfigError(f"{where}: file not found; set KUBECONFIG or give another path")
    loaders: list[_Loader] = []
    uses_plugin = False

    async def load(configuration: Configuration) -> None:
        nonlocal uses_plugin
        try:
            if not loaders:
                load_file = cast("Callable[..., Awaitable[_Loader]]", official.load_kube_config)
                loaders.append(
                    await load_file(
                        config_file=str(path),
                        context=context or None,
                        client_configuration=configuration,
                        persist_config=False,
                    )
                )
                uses_plugin = _uses_plugin(loaders[0])
            else:
                await loaders[0].load_and_set(configuration)
        except (
            official.ConfigException,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            yaml.YAMLError,
            RecursionError,
        ) as error:
            raise KubeConfigError(f"{where}: {' '.join(str(error).split())}") from error
        if uses_plugin and not configuration.api_key.get("BearerToken") and not configuration.cert_file:
            raise KubeConfigError(  # the official client logs the plugin's failure and continues without credentials
                f"{where}: the exec plugin of its user returned neither token nor certificate; run its command by hand"
            )

    return await _loaded(OfficialCredentials(load, where=f"{where}, context {context}" if context else where))


async def in_cluster() -> OfficialCredentials:
    """Return the credentials of the pod's service account. Raises KubeConfigError outside of a cluster."""

    async def load(configuration: Configuration) -> None:
        try:
            cast("Callable[..., None]", official.load_incluster_config)(
                client_configuration=configuration, try_refresh_token=False
            )
        except (official.ConfigException, OSError) as error:
            raise KubeConfigError(
                f"in-cluster configuration: {error} Run inside a pod with a service account, or name a kubeconfig"
            ) from error

    return await _loaded(OfficialCredentials(load, where="in-cluster configuration"))


async def _loaded(credentials: OfficialCredentials) -> OfficialCredentials:
    await credentials.authorization()
    return credentials


def _uses_plugin(loader: _Loader) -> bool:
    user = getattr(loader, "_user", None)  # where the official client keeps it; None for contexts without one
    return user is not None and "exec" in user


def _context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
