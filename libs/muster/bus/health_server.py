"""HTTP server of a process: /metrics for Prometheus, /healthz for liveness, /readyz for readiness."""

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import REGISTRY, make_wsgi_app

from muster.bus.limits import SILENCE_S_MAX

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Health = Callable[[], tuple[bool, dict[str, object]]]
"""Whether the process serves, or is ready to, and what of it; called from the server's thread."""


class HealthServer:
    """The HTTP server, in its own thread so that a busy event loop does not delay it."""

    def __init__(self, host: str, port: int, health: Health, *, ready: Health) -> None:
        """Raises OSError if the port is taken."""
        metrics = make_wsgi_app(REGISTRY)
        told = {"/healthz": health, "/readyz": ready}

        def serve(environment: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
            if environment["PATH_INFO"] == "/metrics":
                answer: Iterable[bytes] = metrics(environment, start)
                return answer
            tell = told.get(environment["PATH_INFO"])
            if tell is not None:
                well, report = tell()
                start("200 OK" if well else "503 Service Unavailable", [("Content-Type", "application/json")])
                return [json.dumps(report).encode()]
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"there are /metrics, /healthz and /readyz\n"]

        self._server = make_server(host, port, serve, server_class=_Threads, handler_class=_Quiet)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Threads(ThreadingMixIn, WSGIServer):
    """Server with one thread per connection and a timeout, so that a silent client delays no other client."""

    daemon_threads = True
    block_on_close = False


class _Quiet(WSGIRequestHandler):
    timeout = SILENCE_S_MAX

    def handle(self) -> None:
        """Handle one request; a client that disconnects or sends nothing is not an error."""
        with suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Suppress the log line of each scrape."""
