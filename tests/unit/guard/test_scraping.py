"""One address, one API server or several: pages, rates and restarts, over HTTP on loopback."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from muster.core import Instant
from muster.guard.core.look import Replica
from muster.guard.replicas import ReplicaScraper
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject


class Pages:
    """A server of metrics. shown: what it answers now; None for a failure."""

    def __init__(self) -> None:
        self.shown: dict[str, float] | None = {}
        self.url = ""
        self._now = 0

    def say(self, *, started: float, lists: float = 0.0, mib: float = 300.0) -> None:
        self.shown = {
            "process_start_time_seconds": started,
            "process_resident_memory_bytes": mib * 2**20,
            'apiserver_request_total{verb="LIST",resource="secrets",group=""}': lists,
        }

    def moment(self) -> Instant:
        self._now += 1
        return Instant(self._now)

    async def answer(self, request: web.Request) -> web.Response:
        if self.shown is None:
            body: JsonObject = {"kind": "Status", "reason": "Forbidden", "message": f"cannot get {request.path}"}
            return web.json_response(body, status=403)
        return web.Response(text="".join(f"{name} {value}\n" for name, value in self.shown.items()))


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    found, app = Pages(), web.Application()
    app.router.add_get("/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


@pytest.fixture
async def private(pages: Pages) -> AsyncIterator[ReplicaScraper]:
    scraper = ReplicaScraper("a:6443", KubeConnection.plain(pages.url, user_agent="test"))
    yield scraper
    await scraper.close()


@pytest.fixture
async def shared(pages: Pages) -> AsyncIterator[ReplicaScraper]:
    scraper = ReplicaScraper("lb:443", KubeConnection.plain(pages.url, user_agent="test"), shared=True)
    yield scraper
    await scraper.close()


async def scraped(scraper: ReplicaScraper, pages: Pages) -> Replica:
    (replica,) = await scraper.scrape(pages.moment())
    return replica


async def test_the_first_page_has_no_rates_and_the_second_has(private: ReplicaScraper, pages: Pages) -> None:
    pages.say(started=100, lists=1_000)
    assert (await scraped(private, pages)).lists_per_minute == 0
    pages.say(started=100, lists=1_010)
    assert (await scraped(private, pages)).lists_per_minute > 0


async def test_a_restarted_server_counts_from_nothing_and_keeps_its_name_and_history(
    private: ReplicaScraper, pages: Pages
) -> None:
    pages.say(started=100, lists=1_000, mib=900)
    first = await scraped(private, pages)
    pages.say(started=200, lists=3, mib=300)
    second = await scraped(private, pages)
    assert second.lists_per_minute > 0
    assert (first.name, second.name) == ("a:6443", "a:6443")
    assert [mib for _, mib in second.memory] == [900, 300]


async def test_what_goes_wrong_is_said_and_history_stays(private: ReplicaScraper, pages: Pages) -> None:
    pages.say(started=100)
    await scraped(private, pages)
    pages.shown = None
    failed = await scraped(private, pages)
    assert failed.page is None
    assert "grant verb" in failed.error
    assert len(failed.memory) == 1


async def test_servers_behind_one_address_are_told_apart_and_their_counts_not_mixed(
    shared: ReplicaScraper, pages: Pages
) -> None:
    for started, lists in ((100.0, 9_000.0), (200.0, 10.0), (100.0, 9_000.0), (200.0, 10.0)):
        pages.say(started=started, lists=lists, mib=started)
        replicas = await shared.scrape(pages.moment())
    assert [(one.name, one.memory_mib) for one in replicas] == [("lb:443 #1", 100), ("lb:443 #2", 200)]
    assert [one.lists_per_minute for one in replicas] == [0, 0]
