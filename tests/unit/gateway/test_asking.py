"""How long the gateway waits for whom."""

from typing import cast

import nats.errors
import pytest
from nats.aio.client import Client

from muster.gateway.leaders import ASK_TIMEOUT_S, LOOK_TIMEOUT_S, NatsScaler, NatsScheduler
from muster.gateway.ports import UnreachableError


class Silent:
    """A connection over which nobody answers. waited_s: how long each question would have waited."""

    is_connected = True

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    async def request(self, subject: str, body: bytes, *, timeout: float) -> None:  # noqa: ASYNC109 - as nats-py names it
        self.waited_s.append(timeout)
        raise nats.errors.TimeoutError


async def test_who_submits_is_told_sooner_that_nobody_answers_than_who_looks() -> None:
    silent = Silent()
    client = cast("Client", silent)
    with pytest.raises(UnreachableError, match="scheduler"):
        await NatsScheduler(client, cluster="east").nodes()
    with pytest.raises(UnreachableError, match="scaler"):
        await NatsScaler(client, cluster="east").choices()
    assert silent.waited_s == [ASK_TIMEOUT_S, LOOK_TIMEOUT_S]
    assert ASK_TIMEOUT_S < LOOK_TIMEOUT_S
