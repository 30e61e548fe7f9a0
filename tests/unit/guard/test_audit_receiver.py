"""The audit webhook, over HTTP on loopback; and the HTTP/2 greeting's bytes."""

import json
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from pydantic import ValidationError

from muster.bus.kubernetes_settings import GuardSettings
from muster.guard.audit import AuditPortError, AuditReceiver, Listed, read_tls, read_token
from muster.guard.replicas import streams_max, streams_of
from muster_tools.local_kubernetes.pki import make_pki

EVENT = {
    "stage": "ResponseComplete", "verb": "list", "requestURI": "/api/v1/pods", "userAgent": "a/1 x",
    "user": {"username": "ann"}, "objectRef": {"resource": "pods"},
}  # fmt: skip


class Heard:
    """A receiver and what it took."""

    def __init__(self) -> None:
        self.taken: list[Listed] = []
        self.receiver = AuditReceiver(host="127.0.0.1", port=0, take=self.taken.append)

    async def post(self, body: bytes) -> int:
        url = f"http://127.0.0.1:{self.receiver.port}/"
        async with aiohttp.ClientSession() as client, client.post(url, data=body) as answer:
            return answer.status


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    found = Heard()
    await found.receiver.start()
    yield found
    await found.receiver.close()


async def test_lists_of_a_batch_are_taken(heard: Heard) -> None:
    batch = {"kind": "EventList", "items": [EVENT, {**EVENT, "verb": "get"}, EVENT]}
    assert await heard.post(json.dumps(batch).encode()) == 200
    assert heard.taken == [Listed("a/1", "ann", "pods")] * 2
    assert heard.receiver.events == 3


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"items": [3, null, {"verb": "list"}]}'])
async def test_what_holds_no_lists_is_taken_as_nothing(heard: Heard, body: bytes) -> None:
    assert await heard.post(body) == 200
    assert heard.taken == []


async def test_what_is_no_json_is_refused_and_counted(heard: Heard) -> None:
    assert await heard.post(b"no json") == 400
    assert heard.receiver.refused == 1


async def test_a_batch_without_the_token_is_turned_away_and_counted() -> None:
    taken: list[Listed] = []
    receiver = AuditReceiver(host="127.0.0.1", port=0, take=taken.append, token="the-token")
    await receiver.start()
    url, body = f"http://127.0.0.1:{receiver.port}", json.dumps({"items": [EVENT]}).encode()
    async with aiohttp.ClientSession() as client:
        for header, status in (("", 401), ("Bearer another", 401), ("Bearer ☃", 401), ("Bearer the-token", 200)):
            headers = {"Authorization": header} if header else {}
            async with client.post(url, data=body, headers=headers) as answer:
                assert answer.status == status
        for path, status in (("/audit/another", 401), ("/the-token/x", 401), ("/audit/the-token", 200)):
            async with client.post(f"{url}{path}", data=body) as answer:
                assert answer.status == status
    await receiver.close()
    assert (len(taken), receiver.refused) == (2, 5)


def test_a_token_that_cannot_be_read_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for path in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(AuditPortError, match=r"guard\.audit_token"):
            read_token(path)
    assert read_token(None) == ""


async def test_with_a_certificate_it_speaks_tls_alone(tmp_path: Path) -> None:
    pki = make_pki(tmp_path, now=datetime.now(UTC))
    taken: list[Listed] = []
    tls = read_tls((pki.server_certificate, pki.server_key))
    receiver = AuditReceiver(host="127.0.0.1", port=0, take=taken.append, tls=tls)
    await receiver.start()
    body, place = json.dumps({"items": [EVENT]}).encode(), f"127.0.0.1:{receiver.port}/audit"
    async with aiohttp.ClientSession() as client:
        trusting = ssl.create_default_context(cafile=str(pki.ca))
        async with client.post(f"https://{place}", data=body, ssl=trusting) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await client.post(f"http://{place}", data=body)
    await receiver.close()
    assert len(taken) == 1


def test_a_certificate_that_cannot_be_used_names_the_settings(tmp_path: Path) -> None:
    pki = make_pki(tmp_path, now=datetime.now(UTC))
    for pair in ((tmp_path / "none", pki.server_key), (pki.server_certificate, pki.service_account_key)):
        with pytest.raises(AuditPortError, match=r"guard\.audit_certificate, guard\.audit_key"):
            read_tls(pair)
    assert read_tls(None) is None


async def test_a_port_that_is_taken_names_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        receiver = AuditReceiver(host="127.0.0.1", port=taken.getsockname()[1], take=lambda _: None)
        with pytest.raises(AuditPortError, match=r"guard\.audit_port"):
            await receiver.start()
        await receiver.close()


@pytest.mark.parametrize(
    ("settings", "streams"),
    [
        (b"\x00\x05\x00\x00\x40\x00\x00\x03\x00\x00\x00\xfa", 250),
        (b"\x00\x05\x00\x00\x40\x00", 2**31 - 1),
        (b"", 2**31 - 1),
    ],
)
def test_streams_are_in_the_settings_frame(settings: bytes, streams: int) -> None:
    assert streams_of(settings) == streams


async def test_a_server_that_is_not_there_tells_no_streams() -> None:
    assert await streams_max("http://127.0.0.1:1") == 0
    assert await streams_max("https://127.0.0.1:1") == 0


@pytest.mark.parametrize(("has", "lacks"), [("audit_certificate", "audit_key"), ("audit_key", "audit_certificate")])
def test_half_of_a_pair_is_refused_with_what_lacks(has: str, lacks: str) -> None:
    with pytest.raises(ValidationError, match=rf"guard\.{lacks} is not set"):
        GuardSettings.model_validate({has: "/x"})
