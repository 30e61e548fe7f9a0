"""Receive the audit events of API servers (audit.k8s.io/v1 EventList): which client lists what, with its user agent.

Events are counted and dropped. API servers send them with --audit-webhook-config-file and a policy that logs LISTs at
level Metadata and nothing else; `muster guard audit` writes both files.
"""

import hmac
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from pydantic_core import from_json

from muster.guard.core.printable import AGENT_CHARS_MAX, NAME_CHARS_MAX, printable
from muster.guard.limits import AUDIT_BODY_BYTES_MAX, AUDIT_CLOSE_S
from muster.kube.objects import JsonObject, objects, text

_BY_NAME = re.compile(r"[?&]fieldSelector=metadata\.name(%3D|=)")


class AuditPortError(OSError):
    """The audit receiver cannot listen, or its token or certificate cannot be read; the message names the setting."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One answered LIST of a client."""

    agent: str
    user: str
    resource: str


def listed_of(event: JsonObject) -> Listed | None:
    """Return the answered LIST of an event; None for other events and for LISTs of one object by name (kubelets)."""
    if text(event, "verb") != "list" or text(event, "stage") != "ResponseComplete":
        return None
    if text(event, "objectRef", "name") or _BY_NAME.search(text(event, "requestURI")):
        return None
    group, resource = text(event, "objectRef", "apiGroup"), text(event, "objectRef", "resource")
    return Listed(
        agent=agent_of(text(event, "userAgent")),
        user=printable(text(event, "user", "username"), NAME_CHARS_MAX),
        resource=printable(f"{resource}.{group}" if group else resource, NAME_CHARS_MAX),
    )


def agent_of(user_agent: str) -> str:
    """Return the first product of a User-Agent, which names the program: "kubectl/v1.34.4"."""
    return printable(user_agent.split(" ", 1)[0], AGENT_CHARS_MAX)


def read_token(path: Path | None) -> str:
    """Return the token in the file of guard.audit_token; "" without a file. Raises AuditPortError."""
    if path is None:
        return ""
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise AuditPortError(f"guard.audit_token: {error}; `muster guard audit` writes one") from error
    if not token:
        raise AuditPortError(f"guard.audit_token: {path} is empty; `muster guard audit` writes one")
    return token


def read_tls(pair: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    """Return the TLS context of certificate and key; None without them. Raises AuditPortError."""
    if pair is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(*pair)
    except OSError as error:  # SSLError, too: not PEM, or the key of another certificate
        raise AuditPortError(
            f"guard.audit_certificate, guard.audit_key: {pair[0]} and {pair[1]} cannot be used: {error}"
        ) from error
    return context


class AuditReceiver:
    """An HTTP server for batches of audit events; `take` is called in the event loop for each answered LIST.

    API servers must send `token` as the last part of the path, since client-go sends no credentials over plain HTTP, or
    as a bearer token; with "" any client that reaches the port can send events. Without `tls` it serves plain HTTP.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        take: Callable[[Listed], None],
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host, self._port, self._take, self._tls = host, port, take, tls
        self._token = token.encode()
        self._runner: web.AppRunner | None = None
        self.events = 0
        """Received events."""
        self.refused = 0
        """Batches that were not valid or came without the token."""

    @property
    def port(self) -> int:
        """Return the port that it listens on; chosen by the system if 0 was configured."""
        assert self._runner is not None, "it is started first"
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Start listening. Raises AuditPortError if the port cannot be used."""
        app = web.Application(client_max_size=AUDIT_BODY_BYTES_MAX)
        app.router.add_post("/{anything:.*}", self._receive)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=AUDIT_CLOSE_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls).start()
        except OSError as error:
            raise AuditPortError(
                f"guard.audit_port: cannot listen on {self._host}:{self._port}: {error}; choose another port, or 0"
            ) from error

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _receive(self, request: web.Request) -> web.Response:
        if not self._is_allowed(request):
            self.refused += 1
            return web.Response(status=401, text="invalid token: send the token of guard.audit_token")
        try:
            batch = from_json(await request.read())
        except ValueError:
            self.refused += 1
            return web.Response(status=400, text="invalid JSON: send an audit.k8s.io/v1 EventList")
        for event in objects(batch, "items"):
            self.events += 1
            if (listed := listed_of(event)) is not None:
                self._take(listed)
        return web.Response(status=200)

    def _is_allowed(self, request: web.Request) -> bool:
        if not self._token:
            return True
        header = request.headers.get("Authorization", "").removeprefix("Bearer ")
        path = request.match_info["anything"].rpartition("/")[2]
        sent = [words.encode(errors="replace") for words in (header, path)]
        return any(hmac.compare_digest(words, self._token) for words in sent)
