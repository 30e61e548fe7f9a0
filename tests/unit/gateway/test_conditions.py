"""How nodes and GPUs are, over HTTP and by the client; and what people tell health."""

from kit.http.gateway import FakeHarness
from muster.schemas.conditions import AskConditions, BrakeView, Condition, ConditionsAnswer
from muster.schemas.facts.health import BrakeResetRequested, BrakeTripped, HealthPhase, VerifyRequested

SICK = Condition(kind="node", name="gpu-1", node="gpu-1", phase=HealthPhase.QUARANTINED, needs_person=True)
TRIPPED = BrakeView(most=3, tripped=BrakeTripped(nodes=4, most=3, fleet=20, window_s=600.0), tripped_at=7)


def harness_with(answer: ConditionsAnswer) -> FakeHarness:
    harness = FakeHarness()
    harness.leaders.answers["health", "conditions"] = answer
    return harness


async def test_what_is_not_healthy_is_what_health_answers() -> None:
    harness = harness_with(ConditionsAnswer(nodes=4, conditions=(SICK,)))
    async with harness.client("eve") as client:
        answer = await client.get("/v1/conditions")
    assert ConditionsAnswer.model_validate_json(answer.content).conditions == (SICK,)
    assert harness.leaders.asked == [("health", "conditions", AskConditions())]


async def test_a_node_that_health_does_not_know_is_404() -> None:
    async with harness_with(ConditionsAnswer(known=False)).client("eve") as client:
        assert (await client.get("/v1/conditions/gpu-9")).status_code == 404


async def test_with_health_away_it_is_503() -> None:
    async with FakeHarness().client("eve") as client:
        assert (await client.get("/v1/conditions")).status_code == 503


async def test_an_operator_says_that_a_node_was_looked_after() -> None:
    harness = harness_with(ConditionsAnswer())
    async with harness.client("olga") as client:
        answer = await client.post("/v1/conditions/gpu-1/verify", params={"trust": "true", "reason": "new board"})
    assert answer.status_code == 200
    (asked,) = harness.log.operations.values()
    assert (asked.kind, asked.subject_id, asked.name) == ("node", "gpu-1", "verify-requested")
    assert asked.payload == VerifyRequested(principal="olga", reason="new board", trust=True)


async def test_an_operator_lets_health_go_on() -> None:
    harness = harness_with(ConditionsAnswer())
    async with harness.client("olga") as client:
        assert (await client.post("/v1/brake/reset", params={"skip": "true"})).status_code == 200
    (asked,) = harness.log.operations.values()
    assert (asked.kind, asked.subject_id, asked.name) == ("health", "brake", "brake-reset-requested")
    assert asked.payload == BrakeResetRequested(principal="olga", skip=True)


async def test_a_brake_that_stays_is_told_as_requested() -> None:
    async with harness_with(ConditionsAnswer(brake=TRIPPED)).client("olga") as client:
        assert (await client.post("/v1/brake/reset")).status_code == 202


async def test_a_submitter_may_do_neither() -> None:
    harness = harness_with(ConditionsAnswer())
    async with harness.client("ann") as client:
        assert (await client.post("/v1/brake/reset")).status_code == 403
        assert (await client.post("/v1/conditions/gpu-1/verify")).status_code == 403
    assert not harness.log.operations
