"""Readiness says that nobody leads, once that lasts longer than a change of leaders."""

from dataclasses import replace

from kit.clocks import FakeTime
from kit.http.gateway import FakeHarness
from muster.gateway.http import make_app
from muster.gateway.leaders import SILENT_S_MAX, Leadership
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError


class Leader:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def ask(self) -> object:
        if self.error is not None:
            raise self.error
        return None


async def test_who_does_not_answer_for_long_is_missing_until_it_answers() -> None:
    time, scheduler, federation = FakeTime(), Leader(), Leader(ProblemError(409, "Conflict", detail="no"))
    leadership = Leadership({"scheduler": scheduler.ask, "federation": federation.ask}, time)
    scheduler.error = UnreachableError("nobody")
    await leadership.ask()
    assert leadership.missing == ()
    time.advance(SILENT_S_MAX + 1)
    await leadership.ask()
    assert leadership.missing == ("scheduler",)
    scheduler.error = None
    await leadership.ask()
    assert leadership.missing == ()


async def test_readiness_names_who_is_not_led_unless_it_is_asked_of_the_gateway_alone() -> None:
    harness, time, leader = FakeHarness(), FakeTime(), Leader(UnreachableError("nobody"))
    harness.harness = replace(harness.harness, leadership=Leadership({"scheduler": leader.ask}, time))
    harness.app = make_app(harness.harness)
    await harness.harness.catalogue.newer()
    async with harness.client("") as client:
        assert (await client.get("/readyz")).status_code == 200
        time.advance(SILENT_S_MAX + 1)
        unready = await client.get("/readyz")
        assert unready.status_code == 503
        assert "no leader for scheduler" in unready.json()["detail"]
        assert (await client.get("/readyz?leaders=false")).status_code == 200
