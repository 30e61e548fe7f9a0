"""Server address and login."""

import ssl
from pathlib import Path
from typing import Protocol


class Credentials(Protocol):
    """The address of an API server and how to log in."""

    @property
    def url(self) -> str:
        """Return the URL of the API server without a trailing slash."""
        ...

    @property
    def where(self) -> str:
        """Return the source of the credentials and the user: equal ones have equal permissions."""
        ...

    @property
    def proxy(self) -> str | None:
        """Return the URL of the HTTP proxy, if any."""
        ...

    @property
    def server_name(self) -> str | None:
        """Return the name to verify in the server's certificate, if not the host of the URL."""
        ...

    async def authorization(self) -> str:
        """Return the Authorization header; "" for client certificates. Raises KubeConfigError."""
        ...

    async def tls(self) -> ssl.SSLContext | None:
        """Return a new TLS context with the current certificates; None for http. Raises KubeConfigError."""
        ...

    def reject(self) -> None:
        """Have the credentials read again, because the server refused them."""
        ...


async def read_credentials(kubeconfig: Path | None, *, context: str = "") -> Credentials:
    """Read the credentials of a kubeconfig's context, or with None of the pod's service account. Raises
    KubeConfigError."""
    from muster.kube.official import from_kubeconfig, in_cluster  # noqa: PLC0415 - 0.3 s and 13 MiB, for real clusters

    return await in_cluster() if kubeconfig is None else await from_kubeconfig(kubeconfig, context=context)


class NoCredentials:
    """No credentials, over plain http: for a fake server or `kubectl proxy`."""

    where = "no credentials"
    proxy: str | None = None
    server_name: str | None = None

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def authorization(self) -> str:
        """Return no header."""
        return ""

    async def tls(self) -> ssl.SSLContext | None:
        """Return no TLS context."""
        return None

    def reject(self) -> None:
        """Do nothing: there are no credentials."""


class AnotherReplica:
    """Credentials for another address of the same API server, whose certificate has the name of the first."""

    def __init__(self, credentials: Credentials, url: str, *, server_name: str | None = None) -> None:
        self._credentials = credentials
        self.url = url.rstrip("/")
        self.where = credentials.where
        self.proxy = credentials.proxy
        self.server_name = server_name or credentials.server_name

    async def authorization(self) -> str:
        """Return the header of the original credentials."""
        return await self._credentials.authorization()

    async def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the original credentials; None for http."""
        return await self._credentials.tls() if self.url.startswith("https:") else None

    def reject(self) -> None:
        """Have the original credentials read again."""
        self._credentials.reject()
