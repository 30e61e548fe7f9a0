"""The surge's HTTP load, against a server of its own on loopback."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp.web
import pytest

from muster_tools.bench.load import Submitted, steady, submit


@dataclass
class Gateway:
    url: str = ""
    keys: Counter[str] = field(default_factory=Counter)
    tokens: set[str] = field(default_factory=set)
    peers: set[object] = field(default_factory=set)
    refuse: str = ""


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    seen = Gateway()

    async def take(request: aiohttp.web.Request) -> aiohttp.web.Response:
        key = request.headers["Idempotency-Key"]
        seen.keys[key] += 1
        seen.tokens.add(request.headers["Authorization"])
        seen.peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        return aiohttp.web.Response(status=422 if key == seen.refuse else 201, text="no")

    app = aiohttp.web.Application()
    app.router.add_post("/v1/jobs", take)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    seen.url = site.name
    yield seen
    await runner.cleanup()


async def sent(gateway: Gateway, count: int, *, per_s: float = 0.0) -> Submitted:
    requests = [(f"k{n}", b"{}") for n in range(count)]
    return await submit(
        requests, url=gateway.url, token="t", connections=4, pace_s=steady(per_s), progress=lambda _: None
    )


async def test_every_request_is_sent_once_over_a_few_kept_connections(gateway: Gateway) -> None:
    result = await sent(gateway, 100)
    assert (result.accepted, result.refused) == (100, 0)
    assert set(gateway.keys.values()) == {1}
    assert len(gateway.keys) == 100
    assert len(gateway.peers) <= 4
    assert gateway.tokens == {"Bearer t"}


async def test_a_refusal_is_counted_and_kept_for_the_message(gateway: Gateway) -> None:
    gateway.refuse = "k3"
    result = await sent(gateway, 10)
    assert (result.accepted, result.refused, result.refusals) == (9, 1, ("422: no",))


async def test_a_rate_is_kept(gateway: Gateway) -> None:
    result = await sent(gateway, 20, per_s=200.0)
    assert result.took_s >= 19 / 200


async def test_each_request_waits_for_its_own_time(gateway: Gateway) -> None:
    result = await submit(
        [(f"k{n}", b"{}") for n in range(4)], url=gateway.url, token="t", connections=4, progress=lambda _: None,
        pace_s=[0.0, 0.0, 0.0, 0.1],
    )  # fmt: skip
    assert result.took_s >= 0.1
    assert list(gateway.keys)[-1] == "k3"


async def test_it_tells_how_late_it_was(gateway: Gateway) -> None:
    result = await submit(
        [(f"k{n}", b"{}") for n in range(40)], url=gateway.url, token="t", connections=1, progress=lambda _: None,
        pace_s=[0.0] * 40,
    )  # fmt: skip
    assert result.late_s_max > 0.0
