"""The Python client beside an application on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from kit.http.gateway import FakeHarness
from kit.loopback import served
from muster.client import (
    Muster,
    Retry,
)
from muster.schemas.job import Phase
from muster.schemas.views import JobView

QUICK = Retry(attempts=3, first_s=0.0, most_s=0.0)


JOB = "A" * 26


@asynccontextmanager
async def sdk(app: ASGIApp, token: str = "ann") -> AsyncIterator[Muster]:
    async with served(app) as url, Muster(url, token, retry=QUICK) as muster:
        yield muster


def known(harness: FakeHarness, phase: Phase = Phase.RUNNING) -> None:
    harness.view.rows[JOB] = JobView(id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=phase)
