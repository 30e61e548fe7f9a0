"""The live view through trouble: a broker, a projector, a gateway that go away and come back, credentials that end."""

import os
import signal

from playwright.async_api import Browser

from browser.dashboards import Dashboard, OpenDashboard, dashboard
from kit.stack.living import Harness, job
from kit.waiting import until, until_async
from muster.client import UnavailableError, UnreachableError
from muster.schemas.access import Role, TokenRecord

RENEWAL_MS = (
    12 * 60_000
)  # a credential of the test stack lives for 15 minutes and is replaced after three quarters of that


def provoked(text: str) -> bool:
    """What Chromium itself writes when a server is not there."""
    lost = ("net::ERR_CONNECTION", "net::ERR_SOCKET_NOT_CONNECTED", "net::ERR_EMPTY_RESPONSE")
    return any(word in text for word in (*lost, "WebSocket connection to", "status of 503"))


async def answers(harness: Harness) -> bool:
    """Whether the gateway is there (again)."""
    try:
        await harness.muster.me()
    except (UnavailableError, UnreachableError):
        return False
    return True


async def shows(shown: Dashboard, harness: Harness, name: str) -> None:
    """Wait until a job that is submitted now is known to the page, without loading it anew."""
    await harness.muster.submit(job(name, run_s=60.0))
    await shown.page.keyboard.press("/")
    await shown.page.fill(".search-input", name)
    await shown.page.wait_for_selector(f"[role=option] >> text={name}")
    await shown.page.keyboard.press("Escape")


async def test_it_comes_back_by_itself_when_the_broker_does(browser: Browser, own_harness: Harness) -> None:
    async with dashboard(browser, own_harness, path="/events", ignored=provoked) as shown:
        await shown.live()
        await shows(shown, own_harness, "before")
        await own_harness.kill("nats-server")
        await shown.connection("offline")
        assert "Next attempt" in await shown.text(".banner")
        await shown.live()
        await shows(shown, own_harness, "after")
        report = await shown.diagnostics()
        assert report["reconnects"] >= 1


async def test_what_is_shown_is_called_stale_while_the_services_stand_still(
    browser: Browser, own_harness: Harness
) -> None:
    async with dashboard(browser, own_harness, path="/events", ignored=provoked) as shown:
        await shown.live()
        await shows(shown, own_harness, "seen")
        services = own_harness.pid("all")
        os.kill(services, signal.SIGSTOP)
        try:
            await shown.connection("stale")
            await shown.until("/stale [3-9] s/.test(document.querySelector('.chip').textContent)")
            assert "may be outdated" in await shown.text(".banner")
        finally:
            os.kill(services, signal.SIGCONT)
        await shown.live()
        await shows(shown, own_harness, "seen-again")


async def test_a_gateway_that_starts_anew_loses_nothing_of_what_is_shown(
    browser: Browser, own_harness: Harness
) -> None:
    async with dashboard(browser, own_harness, path="/events", ignored=provoked) as shown:
        await shown.live()
        kept = await own_harness.muster.submit(job("kept", run_s=60.0))
        await own_harness.kill("all")
        await until_async(lambda: answers(own_harness))
        await shows(shown, own_harness, "later")
        await shown.live()
        await shown.page.keyboard.press("/")
        await shown.page.fill(".search-input", kept.id)
        await shown.page.wait_for_selector("[role=option] >> text=kept")


async def test_a_credential_is_replaced_before_it_ends_and_nothing_is_missed(
    opened: OpenDashboard, harness: Harness
) -> None:
    async with opened() as shown:
        asked: list[str] = []
        shown.page.on("request", lambda request: asked.append(request.url))
        await shown.page.clock.install()
        await shown.go("/events")
        await shown.live()
        await shows(shown, harness, "before-renewal")
        assert sum("/v1/live/credential" in url for url in asked) == 1
        await shown.page.clock.fast_forward(RENEWAL_MS)
        await until(lambda: sum("/v1/live/credential" in url for url in asked) == 2)
        await shows(shown, harness, "after-renewal")
        await shown.live()
        report = await shown.diagnostics()
        assert (report["reconnects"], report["lastGap"], report["snapshots"]) == (0, "", 1)


async def test_a_token_that_is_revoked_ends_at_the_login_with_the_reason(
    browser: Browser, own_harness: Harness
) -> None:
    made = await own_harness.muster.make_token(TokenRecord(principal="visitor", role=Role.VIEWER))
    async with dashboard(
        browser, own_harness, path="/events", token=made.token, ignored=lambda text: "status of 401" in text
    ) as shown:
        await shown.live()
        await own_harness.muster.revoke_token(made.id)
        await shown.go("/queues")
        await shown.page.wait_for_selector("#token")
        assert "no longer valid" in await shown.text(".login-card")
