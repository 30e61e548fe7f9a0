"""Who asks, and which server."""

import ssl
from pathlib import Path
from typing import Protocol


class Credentials(Protocol):
    """Where the server is and how to log in there."""

    @property
    def url(self) -> str:
        """Of the API server, without a slash at its end."""
        ...

    @property
    def where(self) -> str:
        """Where they come from, and as whom: those from the same place may do the same."""
        ...

    @property
    def proxy(self) -> str | None:
        """Of an HTTP proxy before it."""
        ...

    @property
    def server_name(self) -> str | None:
        """What the server's certificate is checked for, if not the host of the URL."""
        ...

    async def authorization(self) -> str:
        """The header of that name; "" for client certificates. Raises KubeConfigError."""
        ...

    async def tls(self) -> ssl.SSLContext | None:
        """A fresh context with the certificates as they are now; None for http. Raises KubeConfigError."""
        ...

    def reject(self) -> None:
        """The server did not take them: the next question asks anew."""
        ...


async def read_credentials(kubeconfig: Path | None, *, context: str = "") -> Credentials:
    """Read those of a kubeconfig file's context, or with None those of the pod's service account.

    Raises KubeConfigError.
    """
    from muster.kube.official import from_kubeconfig, in_cluster  # noqa: PLC0415 - 0.3 s and 13 MiB, for real clusters

    return await in_cluster() if kubeconfig is None else await from_kubeconfig(kubeconfig, context=context)


class NoCredentials:
    """A server that asks for none, over plain http: a fake one, or `kubectl proxy`."""

    where = "no credentials"
    proxy: str | None = None
    server_name: str | None = None

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def authorization(self) -> str:
        """See `Credentials.authorization`."""
        return ""

    async def tls(self) -> ssl.SSLContext | None:
        """See `Credentials.tls`."""
        return None

    def reject(self) -> None:
        """See `Credentials.reject`."""


class AnotherReplica:
    """The same credentials at another address of the same API server, whose certificate names the first one's."""

    def __init__(self, credentials: Credentials, url: str, *, server_name: str | None = None) -> None:
        self._credentials = credentials
        self.url = url.rstrip("/")
        self.where = credentials.where
        self.proxy = credentials.proxy
        self.server_name = server_name or credentials.server_name

    async def authorization(self) -> str:
        """See `Credentials.authorization`."""
        return await self._credentials.authorization()

    async def tls(self) -> ssl.SSLContext | None:
        """See `Credentials.tls`."""
        return await self._credentials.tls() if self.url.startswith("https:") else None

    def reject(self) -> None:
        """See `Credentials.reject`."""
        self._credentials.reject()
