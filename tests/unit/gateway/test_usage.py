"""What GPUs do for jobs and teams, over HTTP and by the client."""

import pytest

from kit.http.gateway import FakeHarness
from muster.schemas.usage import AskEnergy, AskIdle, AskTop, Energy, EnergyRow, Idle, Top, TopRow
from muster.schemas.usage_words import EnergyBy, TopBy, TopOrder


def harness_with(name: str, answer: Top | Idle | Energy) -> FakeHarness:
    harness = FakeHarness()
    harness.leaders.answers["telemetry", name] = answer
    return harness


async def test_top_is_what_telemetry_answers() -> None:
    harness = harness_with("top", Top(rows=(TopRow(key="lab", gpus=8),), total=1))
    async with harness.client("eve") as client:
        answer = await client.get("/v1/usage/top", params={"by": "team", "order": "sm", "team": "lab", "limit": "5"})
    assert Top.model_validate_json(answer.content).rows[0].gpus == 8
    assert harness.leaders.asked == [
        ("telemetry", "top", AskTop(by=TopBy.TEAM, order=TopOrder.SM, team="lab", limit=5))
    ]


async def test_idle_is_what_telemetry_answers() -> None:
    harness = harness_with("idle", Idle(total=3))
    async with harness.client("eve") as client:
        answer = await client.get("/v1/usage/idle", params={"team": "lab"})
    assert Idle.model_validate_json(answer.content).total == 3
    assert harness.leaders.asked == [("telemetry", "idle", AskIdle(team="lab", limit=20))]


async def test_energy_is_what_telemetry_answers() -> None:
    harness = harness_with("energy", Energy(rows=(EnergyRow(key="lab", energy_kwh=7.5),), total=1))
    async with harness.client("eve") as client:
        answer = await client.get("/v1/usage/energy", params={"by": "queue", "days": "7", "team": "lab", "limit": "5"})
        refused = [
            (await client.get("/v1/usage/energy", params=params)).status_code
            for params in ({"days": "0"}, {"days": "36"}, {"by": "user"})
        ]
    assert Energy.model_validate_json(answer.content).rows[0].energy_kwh == 7.5
    question = AskEnergy(by=EnergyBy.QUEUE, days=7, team="lab", limit=5)
    assert harness.leaders.asked == [("telemetry", "energy", question)]
    assert refused == [422, 422, 422]


@pytest.mark.parametrize("params", [{"by": "colour"}, {"order": "none"}, {"limit": "0"}, {"limit": "501"}])
async def test_what_nobody_can_answer_is_422(params: dict[str, str]) -> None:
    async with harness_with("top", Top()).client("eve") as client:
        assert (await client.get("/v1/usage/top", params=params)).status_code == 422


async def test_a_job_that_there_is_not_is_404_and_with_telemetry_away_it_is_503() -> None:
    async with FakeHarness().client("eve") as client:
        assert (await client.get(f"/v1/jobs/{'A' * 26}/stats")).status_code == 404
        assert (await client.get("/v1/usage/top")).status_code == 503


async def test_a_token_is_needed() -> None:
    async with FakeHarness().client("") as client:
        assert (await client.get("/v1/usage/top")).status_code == 401
