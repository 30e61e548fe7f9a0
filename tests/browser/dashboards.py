"""A dashboard in Chromium, for tests: how it is opened, what it says of itself, what may be wrong with it."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, cast

from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize, async_playwright

from kit.stack.living import Harness, options
from kit.waiting import until_async
from muster.cli.starting import composable_settings
from muster.stack.options import StartOptions

CHROMIUM = Path(os.environ.get("MUSTER_CHROMIUM", "/usr/bin/chromium"))
STATIC = Path(__file__).parents[2] / "services" / "muster" / "gateway" / "static" / "index.html"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Without the last four Chromium asks servers of its maker for news, which a closed network refuses, many at a time."""

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
PATIENCE_MS = 20_000.0
FOR_EVER_S = 3_600.0
"""Of a job that is to be seen running: a test cancels it, whatever time the machine takes to show it."""
TELEMETRY_S = 1.0
NODES, COMPOSABLE, POOL = 12, 2, 8

Theme = Literal["dark", "light"]
Json = dict[str, object]


def ready_to_browse() -> None:
    """Fails with what to do if there is no Chromium or no built dashboard."""
    assert CHROMIUM.exists(), f"no Chromium at {CHROMIUM}: install Debian's package chromium, or set MUSTER_CHROMIUM"
    assert STATIC.exists(), f"no {STATIC}: run `make web` first"


def stack_options(
    state_dir: Path, *, nodes: int = NODES, run_s: float = 30.0, lease_ttl_s: float = 1.0
) -> StartOptions:
    """A small fleet with readings, a composable group and a pool. run_s: of jobs that do not say how long."""
    wanted = options(state_dir, nodes=nodes, lease_ttl_s=lease_ttl_s)
    simulation = {
        **cast("Json", wanted.settings["simulation"]),
        "run_s": run_s,
        "telemetry_interval_s": TELEMETRY_S,
    }
    settings = {
        **wanted.settings,
        "simulation": simulation,
        "telemetry": {"interval_s": TELEMETRY_S},
        **composable_settings(nodes=COMPOSABLE, pool=POOL),
    }
    return wanted.model_copy(update={"settings": settings})


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Debian's Chromium, headless."""
    ready_to_browse()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Dashboard:
    """One open page. complaints: what the browser wrote to its console as warning or error, and what was thrown."""

    page: Page
    url: str
    token: str
    complaints: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        """Open a path anew, as from a bookmark."""
        await self.page.goto(self.url + path)

    async def follow(self, path: str) -> None:
        """Go there by the navigation, without loading the page anew."""
        await self.page.click(f'nav li a[href="{path}"]')

    async def live(self) -> None:
        """Wait until what is shown follows the stack."""
        await self.connection("live")

    async def connection(self, kind: str, *, patience_ms: float = PATIENCE_MS) -> None:
        """Wait for a state of the connection: joining, live, stale, offline."""
        await self.page.wait_for_selector(f'[data-connection="{kind}"]', timeout=patience_ms)

    async def diagnostics(self) -> dict[str, dict[str, float] | float]:
        """What the page measures of itself; see src/diagnostics.ts."""
        return cast("dict[str, dict[str, float] | float]", await self.page.evaluate("musterDiagnostics()"))

    async def text(self, selector: str) -> str:
        """What is written there."""
        return await self.page.inner_text(selector)

    async def until(self, expression: str, *, patience_ms: float = PATIENCE_MS) -> None:
        """Wait until a JavaScript expression is true. Playwright's own waiting needs `eval`, which the page forbids."""

        async def is_so() -> bool:
            return bool(await self.page.evaluate(expression))

        try:
            await until_async(is_so, patience_s=patience_ms / 1000)
        except TimeoutError:
            raise AssertionError(f"not so after {patience_ms / 1000:g} s: {expression}") from None


class OpenDashboard(Protocol):
    """`async with opened("/jobs") as dashboard: ...`."""

    def __call__(
        self, path: str = "/", *, theme: Theme = "dark", viewport: ViewportSize = DESKTOP, token: str | None = None
    ) -> AbstractAsyncContextManager[Dashboard]:
        """See `dashboard`."""
        ...


@asynccontextmanager
async def dashboard(
    browser: Browser,
    harness: Harness,
    *,
    path: str = "/",
    theme: Theme = "dark",
    viewport: ViewportSize = DESKTOP,
    token: str | None = None,
    reduced_motion: bool = False,
    ignored: Callable[[str], bool] = lambda _: False,
) -> AsyncIterator[Dashboard]:
    """A dashboard of this stack in a browser profile of its own, logged in with the admin's token.

    token: another one; "" opens it logged out. ignored: complaints of the console that a test provokes on purpose; any
    other fails the test.
    """
    given = harness.stack.state.token.read_text().strip() if token is None else token
    context = await browser.new_context(
        viewport=viewport, color_scheme=theme, reduced_motion="reduce" if reduced_motion else "no-preference"
    )
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    shown = Dashboard(page, harness.stack.endpoints.http, given)

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("warning", "error") and not ignored(message.text):
            shown.complaints.append(f"{message.type}: {message.text}")

    page.on("console", heard)
    page.on("pageerror", lambda error: shown.complaints.append(f"thrown: {error}"))
    try:
        await shown.go(path + (f"#token={given}" if given else ""))
        yield shown
        assert not shown.complaints, "\n".join(shown.complaints)
    finally:
        await context.close()
