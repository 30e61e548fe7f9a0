"""Who may do what."""

import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.authorise import Principal
from muster.schemas.access import Role
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.views import JobView, QueueView

SPEC = {"name": "train", "team": "blue", "task_groups": [{"gpus": 1}]}
JOB = "A" * 26


def a_harness(phase: Phase = Phase.RUNNING) -> FakeHarness:
    harness = FakeHarness()
    harness.view.rows[JOB] = JobView(id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=phase)
    return harness


def queue_row(name: str, *, cluster: str = "atlas", **fields: object) -> QueueView:
    spec = QueueSpec.model_validate({"name": name, **fields})
    return QueueView(name=name, cluster=cluster, parent=spec.parent, spec=spec)


@pytest.mark.parametrize("path", ["/v1/jobs", f"/v1/jobs/{JOB}", "/v1/queues", "/v1/nodes", "/v1/events", "/v1/me"])
@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic ann"}])
async def test_nobody_reads_without_a_token(path: str, header: dict[str, str]) -> None:
    async with a_harness().client("") as client:
        answer = await client.get(path, headers=header)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_before_the_tokens_were_read_it_is_503_and_not_401() -> None:
    harness = a_harness()
    harness.tokens.is_ready = False
    async with harness.client("wrong") as client:
        assert (await client.get("/v1/me")).status_code == 503


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("bob", 403), ("ann", 201), ("olga", 201), ("root", 201)])
async def test_who_may_submit_for_a_team(who: str, status: int) -> None:
    async with a_harness().client(who) as client:
        assert (await client.post("/v1/jobs", json=SPEC)).status_code == status


@pytest.mark.parametrize(
    ("queue", "statuses"),
    [
        # what each may submit for the team blue, into its queue, one that names it, one below such, others, and none
        ("blue", (403, 403, 201, 201, 201)),
        ("lent", (403, 403, 201, 201, 201)),
        ("below-lent", (403, 403, 201, 201, 201)),
        ("below-blue", (403, 403, 201, 201, 201)),
        ("red", (403, 403, 403, 201, 201)),
        ("below-red", (403, 403, 403, 201, 201)),
        ("of-nobody", (403, 403, 403, 201, 201)),
        ("nowhere", (403, 403, 422, 422, 422)),
    ],
)
async def test_who_may_submit_into_which_queue(queue: str, statuses: tuple[int, ...]) -> None:
    harness = a_harness()
    harness.view.queue_rows = [
        queue_row("blue"),
        queue_row("lent", teams=("blue",)),
        queue_row("below-lent", parent="lent"),
        queue_row("below-blue", parent="blue"),
        queue_row("red", teams=("green",)),
        queue_row("below-red", parent="red"),
        queue_row("of-nobody"),
    ]
    found = []
    for who in ("eve", "bob", "ann", "olga", "root"):
        async with harness.client(who) as client:
            answer = await client.post("/v1/jobs", json={**SPEC, "queue": queue})
        found.append(answer.status_code)
        if who == "ann" and answer.status_code == 403:
            assert answer.json()["field"] == "queue"
    assert tuple(found) == statuses
    assert len(harness.log.jobs) == statuses.count(201)


@pytest.mark.parametrize(
    ("priority", "statuses"),
    [(100, (201, 201, 201)), (101, (403, 201, 201)), (500, (403, 201, 201)), (501, (403, 422, 422))],
)
async def test_the_highest_priority_of_each_role_and_of_the_queue(priority: int, statuses: tuple[int, ...]) -> None:
    harness = a_harness()
    harness.view.queue_rows = [queue_row("blue", priority_max=500)]
    job = harness.view.rows[JOB]
    for who, status in zip(("ann", "olga", "root"), statuses, strict=True):
        async with harness.client(who) as client:
            answer = await client.post("/v1/jobs", json={**SPEC, "priority": priority})
            changed = await client.post(f"/v1/jobs/{job.id}/priority", json={"priority": priority})
        assert (answer.status_code, changed.status_code) == (status, 202 if status == 201 else status)
        if status != 201:
            assert (answer.json()["field"], changed.json()["field"]) == ("priority", "priority")
    assert len(harness.log.of_jobs) == statuses.count(201)


async def test_a_queue_that_was_given_to_the_team_a_moment_ago_takes_its_job() -> None:
    harness = a_harness()
    harness.view.queue_rows = [queue_row("red")]
    async with harness.client() as client:
        assert (await client.post("/v1/jobs", json={**SPEC, "queue": "red"})).status_code == 403
        harness.view.queue_rows = [queue_row("red", teams=("blue",))]
        assert (await client.post("/v1/jobs", json={**SPEC, "queue": "red"})).status_code == 201


async def test_one_cluster_alone_cannot_give_a_team_the_queue_of_another() -> None:
    harness = a_harness()
    harness.view.queue_rows = [
        queue_row("blue"),
        queue_row("red"),
        queue_row("red", cluster="rogue", teams=("blue",)),
    ]
    async with harness.client() as client:
        assert (await client.post("/v1/jobs", json={**SPEC, "queue": "red"})).status_code == 403
        assert (await client.post("/v1/jobs", json=SPEC)).status_code == 201


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("bob", 403), ("ann", 202), ("olga", 202), ("root", 202)])
async def test_who_may_cancel_a_teams_job(who: str, status: int) -> None:
    harness = a_harness()
    async with harness.client(who) as client:
        assert (await client.delete(f"/v1/jobs/{JOB}")).status_code == status
    assert len(harness.log.cancels) == (status == 202)


async def test_a_cancel_says_who_and_why() -> None:
    harness = a_harness()
    async with harness.client() as client:
        await client.delete(f"/v1/jobs/{JOB}", params={"reason": "wrong data"})
    ((job, payload),) = harness.log.cancels
    assert (job, payload.principal, payload.reason) == (JOB, "ann", "wrong data")


async def test_a_job_that_has_ended_cannot_be_cancelled() -> None:
    harness = a_harness(Phase.SUCCEEDED)
    async with harness.client() as client:
        assert (await client.delete(f"/v1/jobs/{JOB}")).status_code == 409
    assert harness.log.cancels == []


async def test_cancel_works_with_redis_down() -> None:
    harness = a_harness()
    harness.scheduler.known = dict(harness.view.rows)
    harness.view.is_down = True
    async with harness.client() as client:
        assert (await client.delete(f"/v1/jobs/{JOB}")).status_code == 202


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 403), ("root", 201)])
async def test_who_may_make_tokens(who: str, status: int) -> None:
    async with a_harness().client(who) as client:
        answer = await client.post("/v1/tokens", json={"principal": "new", "role": "submitter", "teams": ["blue"]})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["cure"] == "Ask an admin."


@pytest.mark.parametrize("name", ["ann\nroot", "a\x1b[2J", "a\u202eb"])
async def test_a_tokens_name_holds_no_control_character(name: str) -> None:
    async with a_harness().client("root") as client:
        answer = await client.post("/v1/tokens", json={"principal": name, "role": "viewer"})
    assert (answer.status_code, answer.json()["field"]) == (422, "principal")


async def test_a_submitter_of_no_team_is_refused() -> None:
    async with a_harness().client("root") as client:
        answer = await client.post("/v1/tokens", json={"principal": "new", "role": "submitter"})
    assert (answer.status_code, answer.json()["field"]) == (422, "teams")


async def test_a_token_works_until_it_is_revoked_and_is_listed_by_its_hash_alone() -> None:
    harness = a_harness()
    async with harness.client("root") as admin:
        made = (await admin.post("/v1/tokens", json={"principal": "new", "role": "viewer"})).json()
        async with harness.client(made["token"]) as new:
            me = (await new.get("/v1/me")).json()
            assert (me["principal"], me["role"], me["teams"]) == ("new", "viewer", [])
            listed = await admin.get("/v1/tokens")
            assert made["token"] not in listed.text
            assert made["id"] in listed.text
            revoked = await admin.delete(f"/v1/tokens/{made['id']}")
            assert (revoked.status_code, dict(revoked.headers), revoked.content) == (204, {}, b"")
            assert (await new.get("/v1/me")).status_code == 401
        assert (await admin.delete(f"/v1/tokens/{made['id']}")).status_code == 404


def test_each_role_may_what_the_ones_before_it_may() -> None:
    viewer, submitter, operator, admin = (
        Principal("p", role, frozenset({"blue"})) for role in (Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN)
    )
    assert [p.acts_for("blue") for p in (viewer, submitter, operator, admin)] == [False, True, True, True]
    assert [p.acts_for("red") for p in (viewer, submitter, operator, admin)] == [False, False, True, True]
    assert [p.is_at_least(Role.ADMIN) for p in (viewer, submitter, operator, admin)] == [False, False, False, True]
