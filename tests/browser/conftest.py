"""A running stack and Chromium for every test here. Never import from here: what tests call is in `dashboards`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize

from browser.dashboards import DESKTOP, Dashboard, OpenDashboard, Theme, chromium, dashboard, stack_options
from kit.stack.living import Harness, open_harness

HERE = Path(__file__).parent
LEASE_S = 20.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop for all tests here: the stack and the browser belong to it."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """One stack for all tests that break nothing: 12 nodes of 8 GPUs, 2 composable ones, 8 GPUs in the pool.

    No service of it dies, so leases are long: on a machine that does much else a short one is lost for nothing, and a
    page that asks in that moment is told that nobody answers.
    """
    async with open_harness(stack_options(tmp_path_factory.mktemp("stack"), lease_ttl_s=LEASE_S)) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """A stack of a module's own, for tests that disturb it and leave it well."""
    async with open_harness(stack_options(tmp_path_factory.mktemp("stack"), nodes=4)) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium; each dashboard gets a profile of its own."""
    async with chromium() as running:
        yield running


@pytest.fixture
def opened(browser: Browser, harness: Harness) -> OpenDashboard:
    """Opens dashboards of the shared stack."""

    def open_one(
        path: str = "/", *, theme: Theme = "dark", viewport: ViewportSize = DESKTOP, token: str | None = None
    ) -> AbstractAsyncContextManager[Dashboard]:
        return dashboard(browser, harness, path=path, theme=theme, viewport=viewport, token=token)

    return open_one
