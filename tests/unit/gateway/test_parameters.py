"""Parameters over HTTP: how a wrong one is refused, in which order, and what the OpenAPI document says of them."""

import re

import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.http import document

JOB = "A" * 26
TOO_LONG = "x" * 1025


@pytest.mark.parametrize(
    ("path", "field", "detail", "cure"),
    [
        ("/v1/jobs?limit=x", "limit", "'x' is not between 1 and 1000", "Send 1 to 1000."),
        ("/v1/events?limit=0", "limit", "'0' is not between 1 and 2000", "Send 1 to 2000."),
        ("/v1/jobs?live=maybe", "live", "'maybe' is neither true nor false", "Send true or false."),
        ("/v1/queues?shares=on", "shares", "'on' is neither true nor false", "Send true or false."),
        ("/v1/usage/energy?by=user", "by", "'user' is not one of team, queue", "Send one of team, queue."),
        ("/v1/jobs/nope", "job_id", "'nope' is not a job id", "A job id has 26 characters: A to Z and 2 to 7."),
        ("/v1/jobs/nope/why", "job_id", "'nope' is not a job id", "A job id has 26 characters: A to Z and 2 to 7."),
    ],
)
async def test_a_wrong_parameter_is_named_with_its_value_and_what_is_allowed(
    path: str, field: str, detail: str, cure: str
) -> None:
    async with FakeHarness().client() as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert (problem["field"], problem["detail"], problem["cure"]) == (field, detail, cure)


async def test_who_may_not_ask_is_told_so_before_anything_about_parameters_or_body() -> None:
    wrong = {"reason": TOO_LONG, "trust": "maybe"}
    harness = FakeHarness()
    for token, status in (("", 401), ("eve", 403), ("olga", 422)):
        async with harness.client(token) as client:
            assert (await client.post("/v1/conditions/n1/verify", params=wrong)).status_code == status
            assert (await client.put("/v1/queues/blue", content=b"[]")).status_code == status


async def test_an_idempotency_key_that_is_none_is_refused_by_the_headers_name() -> None:
    async with FakeHarness().client("olga") as client:
        answer = await client.delete("/v1/reservations/r", headers={"Idempotency-Key": "two words"})
    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")


def test_the_document_describes_what_each_path_names_and_asks_for_a_token() -> None:
    paths = document()["paths"]
    assert isinstance(paths, dict)
    for path, methods in paths.items():
        for method, operation in methods.items():
            parameters = operation.get("parameters", [])
            named = {one["name"] for one in parameters if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), f"{method} {path}"
            assert all(one.get("description") for one in parameters), f"{method} {path}"
            assert operation.get("security", []) == ([{"token": []}] if path.startswith("/v1/") else [])
            refused = operation["responses"].get("422")
            assert refused is None or list(refused["content"]) == ["application/problem+json"], f"{method} {path}"
