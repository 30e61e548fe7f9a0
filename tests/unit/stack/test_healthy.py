"""The health check of containers."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kit.http.certificates import Authority
from muster.stack.healthy import answer_of, main
from muster.stack.ports import free_port


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/well" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name of the base class


@contextmanager
def answering(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server on loopback; its address without the scheme."""
    with HTTPServer(("127.0.0.1", 0), Answers) as serving:
        if tls is not None:
            serving.socket = tls.wrap_socket(serving.socket, server_side=True)
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[str]:
    with answering() as address:
        yield f"http://{address}"


def test_who_answers_200_is_well(server: str) -> None:
    assert main((f"{server}/well",)) == 0


def test_who_answers_otherwise_is_not_unless_any_answer_will_do(server: str) -> None:
    assert main((f"{server}/ill",)) == 1
    assert main(("--any", f"{server}/ill")) == 0


def test_over_tls_the_answer_counts_whatever_the_certificate_is_for(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority.make(tmp_path).issue())
    with answering(context) as address:
        assert (main((f"https://{address}/well",)), main((f"https://{address}/ill",))) == (0, 1)
        assert main(("--any", f"http://{address}/well")) == 1, "it does not speak plain HTTP"


def test_who_does_not_answer_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main((f"http://127.0.0.1:{free_port()}/",)) == 1
    assert "no answer" in capsys.readouterr().err


def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        answer_of("https://x")
