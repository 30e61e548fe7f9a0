"""Submitting over HTTP: what is accepted, what is refused and how, and that nothing happens twice."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.http.gateway import FakeHarness, lost_log
from muster.schemas.base import BODY_BYTES_MAX
from muster.schemas.views import NodeView

SPEC = {"name": "train", "team": "blue", "task_groups": [{"replicas": 2, "gpus": 8}]}


def spec(**changes: Any) -> dict[str, Any]:
    return {**SPEC, **changes}


def group(**changes: Any) -> dict[str, Any]:
    return spec(task_groups=[{"gpus": 1, **changes}])


async def test_a_job_is_accepted_once_and_told_again() -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        first = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})
        again = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == f"/v1/jobs/{first.json()['id']}"
    assert len(harness.log.jobs) == 1


async def test_a_new_job_says_when_it_was_submitted() -> None:
    harness = FakeHarness()
    before = harness.harness.time.wall()
    async with harness.client() as client:
        new = (await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})).json()
        again = (await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})).json()
    assert before <= new["submitted_at"] <= harness.harness.time.wall()
    assert again["submitted_at"] == harness.log.jobs[new["id"]].submitted_at, "the broker's stamp"


async def test_fields_in_another_order_are_the_same_job() -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})
        turned = await client.post("/v1/jobs", json=dict(reversed(SPEC.items())), headers={"Idempotency-Key": "k"})
    assert turned.status_code == 200


async def test_the_same_key_with_another_body_is_a_conflict() -> None:
    async with FakeHarness().client() as client:
        await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})
        other = await client.post("/v1/jobs", json=spec(name="other"), headers={"Idempotency-Key": "k"})
    assert other.status_code == 409
    assert other.json()["field"] == "Idempotency-Key"


async def test_a_key_is_its_bearers_own() -> None:
    harness = FakeHarness()
    for who in ("ann", "olga"):
        async with harness.client(who) as client:
            assert (await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})).status_code == 201
    assert len(harness.log.jobs) == 2


async def test_without_a_key_one_is_made_and_told() -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        first = await client.post("/v1/jobs", json=SPEC)
        second = await client.post("/v1/jobs", json=SPEC)
        again = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": first.headers["idempotency-key"]})
    assert len(harness.log.jobs) == 2
    assert second.json()["id"] != first.json()["id"] == again.json()["id"]


async def test_a_trace_that_the_client_brought_goes_on() -> None:
    brought = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    async with FakeHarness().client() as client:
        kept = await client.post("/v1/jobs", json=SPEC, headers={"traceparent": brought})
        made = await client.post("/v1/jobs", json=SPEC, headers={"traceparent": "00-" + "0" * 32 + "-nonsense"})
    assert kept.json()["trace"] == brought
    assert len(made.json()["trace"]) == 55


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "team": "blue"}, "task_groups"),
        (spec(task_groups=[]), "task_groups"),
        (spec(team=7), "team"),
        (spec(colour="red"), "colour"),
        (group(replicas=0), "task_groups.0.replicas"),
        (group(gpus="many"), "task_groups.0.gpus"),
        (group(gpus="8"), "task_groups.0.gpus"),
        (group(gpus=True), "task_groups.0.gpus"),
        (group(gpu_milli=500), "task_groups.0"),
        (group(gpus=9), "task_groups.0.gpus"),
        (group(gpu_models=["H200"]), "task_groups.0.gpu_models"),
        (group(cpu_milli=200_000), "task_groups.0.cpu_milli"),
        (group(memory_mib=2_000_000), "task_groups.0.memory_mib"),
        (spec(queue="nowhere"), "queue"),
        (spec(queue="shut"), "queue"),
        (spec(team="none"), "team"),
        (spec(topology={"level": "galaxy", "required": True}), "topology.level"),
        (group(topology={"level": "socket", "required": True}), "task_groups.0.topology.level"),
        (group(replicas=2, min_replicas=3), "task_groups.0"),
        (spec(left_out=["min_slice_s"]), "left_out"),
        (spec(grace_s=3601), "grace_s"),
    ],
)
async def test_a_job_that_can_never_run_is_refused_at_once_with_its_field(body: dict[str, Any], field: str) -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        answer = await client.post("/v1/jobs", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"] == field
    assert answer.json()["detail"]
    assert harness.log.jobs == {}


@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        ({}, ("total_run_time_s", "min_slice_s")),
        ({"min_slice_s": 60}, ("total_run_time_s",)),
        ({"total_run_time_s": 60, "min_slice_s": 3600}, ()),
    ],
)
async def test_run_times_that_the_body_leaves_out_are_left_to_the_queue(
    said: dict[str, Any], left_out: tuple[str, ...]
) -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        answers = [await client.post("/v1/jobs", json=spec(**said), headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200], "a retry is the same job"
    (stored,) = harness.log.jobs.values()
    assert stored.job.spec.left_out == left_out


async def test_a_level_inside_nodes_may_be_required_also_with_the_read_model_away() -> None:
    harness = FakeHarness()
    harness.view.is_down = True
    inside = (("socket", (0, 0, 1, 1)),)
    node = NodeView(name="n", cluster="atlas", gpus=4, cpu_milli=9000, memory_mib=9000, device_domains=inside)
    harness.scheduler.node_rows = [node]
    async with harness.client() as client:
        answer = await client.post("/v1/jobs", json=group(topology={"level": "socket", "required": True}))
    assert answer.status_code == 201


@pytest.mark.parametrize(("level", "required"), [("rack", True), ("node", True), ("galaxy", False)])
async def test_a_level_that_nodes_have_or_that_is_only_preferred_is_accepted(level: str, required: bool) -> None:
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", json=spec(topology={"level": level, "required": required}))
    assert answer.status_code == 201


async def test_a_refused_level_names_the_levels_that_exist() -> None:
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", json=spec(topology={"level": "galaxy", "required": True}))
    assert "node, block, rack" in answer.text


@pytest.mark.parametrize("body", [b"{", b"", b"[" * 50_000, b'{"name": NaN'])
async def test_what_is_no_json_is_told_so(body: bytes) -> None:
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", content=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "body")


async def test_a_body_over_the_limit_is_refused_whether_its_length_is_told_or_not() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(2_000):
            yield b"x" * 1024

    async with FakeHarness().client() as client:
        declared = await client.post("/v1/jobs", content=b"", headers={"Content-Length": str(BODY_BYTES_MAX + 1)})
        undeclared = await client.post("/v1/jobs", content=endless())
    assert (declared.status_code, undeclared.status_code) == (413, 413)
    assert declared.headers["connection"] == "close"


@pytest.mark.parametrize(("told", "read"), [({}, 3), ({"Expect": "100-continue"}, 0)])
async def test_a_body_over_the_limit_is_read_past_so_that_its_sender_reads_the_refusal(
    told: dict[str, str], read: int
) -> None:
    pieces = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal pieces
        for _ in range(3):
            pieces += 1
            yield b"x" * BODY_BYTES_MAX

    headers = {"Content-Length": str(3 * BODY_BYTES_MAX), **told}
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", content=body(), headers=headers)
    assert (answer.status_code, pieces) == (413, read)


async def test_a_refusal_counts_only_what_is_wrong_on_its_own() -> None:
    async with FakeHarness().client() as client:
        one = await client.post("/v1/jobs", json=group(replicas=0))
        two = await client.post("/v1/jobs", json={**group(replicas=0), "retries": -1})
    assert "more" not in one.json()["detail"]
    assert "(and 1 more)" in two.json()["detail"]


@pytest.mark.parametrize(
    "groups",
    [
        [{"replicas": 4096, "gpus": 8}],
        [{"name": f"g{number}", "replicas": 4096, "gpus": 0} for number in range(2)],
    ],
)
async def test_a_gang_whose_facts_would_be_too_large_is_refused(groups: list[dict[str, Any]]) -> None:
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", json=spec(task_groups=groups))
    assert (answer.status_code, answer.json()["field"]) == (413, "task_groups")


async def test_a_specification_that_makes_a_fact_too_large_is_refused() -> None:
    labels = {f"{number}-{'k' * 240}": "é" * 1024 for number in range(64)}
    command = ["\u2603" * 1024] * 200
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", json=spec(labels=labels, command=command))
    assert answer.status_code == 413


async def test_a_queue_made_a_moment_ago_counts() -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        assert (await client.post("/v1/jobs", json=spec(team="none"))).status_code == 422
        harness.view.queue_rows.append(harness.view.queue_rows[0].model_copy(update={"name": "none"}))
        assert (await client.post("/v1/jobs", json=spec(team="none"))).status_code == 201


async def test_a_fleet_that_nobody_knows_yet_refuses_nothing() -> None:
    harness = FakeHarness()
    harness.view.shape_rows = []
    async with harness.client() as client:
        assert (await client.post("/v1/jobs", json=group(gpus=64))).status_code == 201


async def test_a_log_that_takes_nothing_is_503_and_the_same_request_may_come_again() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    async with harness.client() as client:
        refused = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})
        harness.log.fails = None
        accepted = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "k"})
    assert (refused.status_code, accepted.status_code) == (503, 201)
    assert refused.headers["retry-after"] == "1"


async def test_with_redis_down_the_scheduler_is_asked() -> None:
    harness = FakeHarness()
    harness.view.is_down = True
    async with harness.client() as client:
        accepted = await client.post("/v1/jobs", json=SPEC)
        refused = await client.post("/v1/jobs", json=group(gpus=9))
    assert (accepted.status_code, refused.status_code) == (201, 422)


async def test_with_nobody_to_ask_it_is_503() -> None:
    harness = FakeHarness()
    harness.view.is_down = harness.scheduler.is_down = True
    async with harness.client() as client:
        answer = await client.post("/v1/jobs", json=SPEC)
    assert answer.status_code == 503
    assert harness.log.jobs == {}


async def test_a_dry_run_answers_and_stores_nothing() -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        fits = await client.post("/v1/jobs?dry_run=true", json=SPEC)
        never = await client.post("/v1/jobs?dry_run=true", json=group(gpus=9))
        wrong = await client.post("/v1/jobs?dry_run=true", json=spec(team=7))
    assert fits.json()["placed"] is True
    assert (never.status_code, never.json()["refused"], never.json()["field"]) == (200, True, "task_groups.0.gpus")
    assert wrong.status_code == 422
    assert harness.log.jobs == {}


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "naïve"])
async def test_a_key_that_is_none_is_refused(key: str) -> None:
    async with FakeHarness().client() as client:
        answer = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": key.encode()})
    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")


async def test_a_suite_of_checks_that_does_not_exist_is_refused_with_those_that_do() -> None:
    async with FakeHarness().client() as client:
        refused = await client.post("/v1/jobs", json=spec(preflight="magic"), headers={"Idempotency-Key": "k"})
        for known in ("quick", "none"):
            fine = await client.post("/v1/jobs", json=spec(preflight=known), headers={"Idempotency-Key": known})
            assert fine.status_code == 201
    assert refused.status_code == 422
    assert (refused.json()["field"], "quick" in refused.json()["cure"]) == ("preflight", True)
