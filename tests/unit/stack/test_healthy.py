"""The health check of containers."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from muster.stack.healthy import answer_of, main
from muster.stack.ports import free_port


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/well" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name of the base class


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_who_answers_200_is_well(server: str) -> None:
    assert main((f"{server}/well",)) == 0


def test_who_answers_otherwise_is_not_unless_any_answer_will_do(server: str) -> None:
    assert main((f"{server}/ill",)) == 1
    assert main(("--any", f"{server}/ill")) == 0


def test_who_does_not_answer_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main((f"http://127.0.0.1:{free_port()}/",)) == 1
    assert "no answer" in capsys.readouterr().err


def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        answer_of("https://x")
