"""Dashboards without a screen: NATS clients that follow the live view, in a process of their own.

They count what they get and how late it is. Decoding every slice in every client would measure this process and not the
broker, so each client decodes one slice in DECODED_ONE_IN.
"""

import asyncio
import base64
import json
import multiprocessing
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg

from muster.bus.jwt import key_of_seed
from muster.schemas.live import LiveCredential

DECODED_ONE_IN = 10
CONNECTED_S_MAX = 60.0
LEAVE = b"leave"


@dataclass
class Heard:
    """What all listeners of a process got. late_ms: of the facts of the slices that were decoded."""

    slices: int = 0
    bytes: int = 0
    gaps: int = 0
    late_ms: list[float] = field(default_factory=list)


class Listeners:
    """So many clients in a child process, from `start` on; `stop` answers what they heard."""

    def __init__(self, url: str, credentials: Sequence[LiveCredential]) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_run, args=(url, tuple(credentials), theirs), daemon=True)

    async def start(self) -> None:
        """Return once all follow."""
        self._process.start()
        assert await asyncio.to_thread(self._pipe.poll, CONNECTED_S_MAX), "the listeners did not connect in time"
        self._pipe.recv_bytes()

    async def clear(self) -> None:
        """Forget what was heard so far: the measurement begins here."""
        self._pipe.send_bytes(b"clear")

    async def stop(self) -> Heard:
        """Leave, and tell."""
        self._pipe.send_bytes(LEAVE)
        heard = await asyncio.to_thread(self._pipe.recv)
        assert isinstance(heard, Heard)
        await asyncio.to_thread(self._process.join)
        return heard


def _run(url: str, credentials: tuple[LiveCredential, ...], pipe: Connection) -> None:
    uvloop.run(_listen(url, credentials, pipe))


async def _listen(url: str, credentials: tuple[LiveCredential, ...], pipe: Connection) -> None:
    heard = Heard()
    clients = [await _follow(url, credential, heard, number) for number, credential in enumerate(credentials)]
    pipe.send_bytes(b"ready")
    while (await asyncio.to_thread(pipe.recv_bytes)) != LEAVE:
        heard.slices = heard.bytes = heard.gaps = 0
        heard.late_ms.clear()
    for client in clients:
        await client.close()
    pipe.send(heard)


async def _follow(url: str, credential: LiveCredential, heard: Heard, number: int) -> Client:
    key = key_of_seed(credential.seed)
    client = await nats.connect(
        url,
        inbox_prefix=credential.inbox_prefix,
        user_jwt_cb=lambda: bytearray(credential.jwt.encode()),
        signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    )
    count = number  # so that not all decode the same slices
    stand: dict[str, int] = {}

    async def take(message: Msg) -> None:
        nonlocal count
        late_from_ns = time.time_ns()
        heard.slices += 1
        heard.bytes += len(message.data)
        count += 1
        if count % DECODED_ONE_IN:
            return
        body = json.loads(zlib.decompress(message.data))
        seq = stand.get(message.subject, 0)
        heard.gaps += seq > body["seq"]
        stand[message.subject] = body["seq"]
        heard.late_ms += [(late_from_ns - fact["time"]) / 1e6 for fact in body["facts"]]

    for cluster in credential.clusters:
        for audience in credential.audiences:
            await client.subscribe(f"view.{cluster}.{audience}.packed", cb=take)
    await client.flush()
    return client
