"""Reading over HTTP: an accepted job is never unknown, whatever is down."""

import asyncio

import pytest

from kit.http.gateway import FED, LOG, FakeHarness, fact
from muster.gateway import views
from muster.gateway.api import changes
from muster.gateway.ports import JobFilter
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.queries import QueueCheckAnswer
from muster.schemas.views import JobView, QueueView

SPEC = {"name": "train", "team": "blue", "task_groups": [{"gpus": 1}]}
UNKNOWN = "Z" * 26


async def submitted(harness: FakeHarness) -> str:
    async with harness.client() as client:
        return str((await client.post("/v1/jobs", json=SPEC)).json()["id"])


def row(job_id: str, phase: Phase = Phase.RUNNING) -> JobView:
    return JobView(id=job_id, name="train", team="blue", principal="ann", queue="blue", phase=phase)


async def test_a_get_waits_for_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = FakeHarness()
    job_id = await submitted(harness)

    async def later() -> None:
        while harness.view.looks < 3:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.view.rows[job_id] = row(job_id, Phase.QUEUED)

    async with harness.client() as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(later())
        answer = await client.get(f"/v1/jobs/{job_id}")
    assert answer.json()["phase"] == "queued"


async def test_a_projection_that_does_not_come_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PROJECTION_WAIT_S", 0.0)
    harness = FakeHarness()
    job_id = await submitted(harness)
    async with harness.client() as client:
        from_fed = await client.get(f"/v1/jobs/{job_id}")
        harness.scheduler.known[job_id] = row(job_id, Phase.PLACED)
        from_scheduler = await client.get(f"/v1/jobs/{job_id}")
    assert (from_fed.json()["phase"], from_scheduler.json()["phase"]) == ("submitted", "placed")


async def test_with_everything_else_down_fed_answers_submitted() -> None:
    harness = FakeHarness()
    job_id = await submitted(harness)
    harness.view.is_down = harness.scheduler.is_down = True
    async with harness.client() as client:
        answer = await client.get(f"/v1/jobs/{job_id}")
    assert (answer.status_code, answer.json()["phase"]) == (200, "submitted")


async def test_what_was_never_submitted_is_404_and_what_is_no_id_is_422() -> None:
    async with FakeHarness().client() as client:
        assert (await client.get(f"/v1/jobs/{UNKNOWN}")).status_code == 404
        assert (await client.get("/v1/jobs/nonsense")).status_code == 422


async def test_a_job_whose_row_was_dropped_is_gone_and_not_submitted() -> None:
    harness = FakeHarness()
    job_id = await submitted(harness)
    harness.view.fed_seq = 99
    async with harness.client() as client:
        assert (await client.get(f"/v1/jobs/{job_id}")).status_code == 410


async def test_lists_pass_rows_and_cursor_on() -> None:
    harness = FakeHarness()
    for letter in "ABC":
        harness.view.rows[letter * 26] = row(letter * 26)
    async with harness.client() as client:
        first = (await client.get("/v1/jobs", params={"limit": 2})).json()
        rest = (await client.get("/v1/jobs", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [len(first["jobs"]), len(rest["jobs"]), rest["next_cursor"]] == [2, 1, ""]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "limit=99999",
        "phase=asleep",
        "cursor=%22",
        "cursor=zz",
        "live=maybe",
        "limit=%D9%A3",
        "ended=maybe",
        "ended_from=5",
        "ended_before=5",
        "ended_from=-1&ended=true",
        "ended_before=99999999999999999999&ended=true",
    ],
)
async def test_a_list_query_that_makes_no_sense_names_its_field(query: str) -> None:
    async with FakeHarness().client() as client:
        answer = await client.get(f"/v1/jobs?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, query.partition("=")[0])


async def test_the_list_of_ended_jobs_passes_its_limits_on() -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        query = {"ended": "true", "ended_from": 5, "ended_before": 9, "user": "ann", "phase": "failed"}
        assert (await client.get("/v1/jobs", params=query)).status_code == 200
    (wanted,) = harness.view.wanted
    assert wanted == JobFilter(user="ann", phase=Phase.FAILED, ended_only=True, ended_from=5, ended_before=9)


async def test_queues_and_nodes_come_from_the_scheduler_with_redis_down_and_lists_do_not() -> None:
    harness = FakeHarness()
    harness.view.is_down = True
    async with harness.client() as client:
        assert len((await client.get("/v1/queues")).json()["queues"]) == 2
        assert len((await client.get("/v1/nodes")).json()["nodes"]) == 1
        assert (await client.get("/v1/jobs")).status_code == 503


async def test_why_asks_the_scheduler_and_says_so_if_it_does_not_know_yet() -> None:
    harness = FakeHarness()
    job_id = await submitted(harness)
    harness.view.rows[job_id] = row(job_id, Phase.SUBMITTED)
    async with harness.client() as client:
        unknown = (await client.get(f"/v1/jobs/{job_id}/why")).json()
        harness.scheduler.known[job_id] = row(job_id, Phase.QUEUED)
        known = (await client.get(f"/v1/jobs/{job_id}/why")).json()
        harness.scheduler.is_down = True
        down = (await client.get(f"/v1/jobs/{job_id}/why")).json()
    assert (unknown["reason"], known["reason"], known["position"]) == ("not-routed", "no-capacity", 3)
    assert down["reason"] == "scheduler-unreachable"


async def test_operators_change_queues_and_see_them_changed() -> None:
    harness = FakeHarness()
    wanted = {"name": "new", "gpu_milli_quota": 8000}
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.put("/v1/queues/new", json=wanted))
        while not harness.log.queue_requests:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.view.queue_rows.append(QueueView(cluster="atlas", **wanted))
    assert (asked.result().status_code, asked.result().json()["gpu_milli_quota"]) == (200, 8000)


async def test_a_change_of_a_knob_that_no_column_shows_is_waited_for_too() -> None:
    harness = FakeHarness()
    spec = QueueSpec(name="blue", quota={"gpu_milli": 1000}, starving_after_s=60)
    harness.view.queue_rows = [QueueView(name="blue", cluster="atlas", quota=spec.quota, spec=QueueSpec(name="blue"))]
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.put("/v1/queues/blue", content=spec.model_dump_json()))
        while not harness.log.queue_requests:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        assert not asked.done()
        harness.view.queue_rows = [QueueView(name="blue", cluster="atlas", spec=spec)]
    assert (asked.result().status_code, asked.result().json()["spec"]["starving_after_s"]) == (200, 60)


async def test_shares_come_from_the_scheduler_and_are_left_out_while_it_is_away() -> None:
    harness = FakeHarness()
    (shown, _) = harness.view.queue_rows
    harness.scheduler.queue_rows = [shown.model_copy(update={"share": 0.5})]
    async with harness.client() as client:
        without = (await client.get("/v1/queues")).json()["queues"]
        told = (await client.get("/v1/queues", params={"shares": "true"})).json()["queues"]
        harness.scheduler.is_down = True
        away = (await client.get("/v1/queues", params={"shares": "true"})).json()["queues"]
    assert [row["share"] for row in (without[0], told[0], away[0])] == [0.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("who", "path", "body", "status"),
    [
        ("ann", "blue", {"name": "blue"}, 403),
        ("olga", "blue", {"name": "red"}, 422),
        ("olga", "blue", {"name": "blue", "gpu_milli_quota": -1}, 422),
        ("olga", "blue", {"name": "blue", "colour": "red"}, 422),
    ],
)
async def test_queue_changes_that_are_refused(who: str, path: str, body: dict[str, object], status: int) -> None:
    harness = FakeHarness()
    async with harness.client(who) as client:
        assert (await client.put(f"/v1/queues/{path}", json=body)).status_code == status
    assert harness.log.queue_requests == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"quota": {"gpu": 1}}, "quota.gpu"),
        ({"quota": {"gpu_milli": -1}}, "quota.gpu_milli"),
        ({"user_template": {"lending_limit": {"cpu_milli": "x"}}}, "user_template.lending_limit.cpu_milli"),
        ({"preemption": {"reclaim": "sometimes"}}, "preemption.reclaim"),
    ],
)
async def test_a_refused_queue_names_the_field_inside(change: dict[str, object], field: str) -> None:
    async with FakeHarness().client("olga") as client:
        answer = await client.put("/v1/queues/blue", json={"name": "blue", **change})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_a_queue_that_the_scheduler_would_refuse_is_refused_with_its_field() -> None:
    harness = FakeHarness()
    harness.scheduler.check = QueueCheckAnswer(field="gpu_milli_limit", reason="below the quota")
    async with harness.client("olga") as client:
        answer = await client.put("/v1/queues/blue", json={"name": "blue"})
    assert (answer.status_code, answer.json()["field"]) == (422, "gpu_milli_limit")


TREE = {"queues": [{"name": "org"}, {"name": "red", "parent": "org"}, {"name": "pink", "parent": "red"}]}


async def test_a_tree_is_asked_for_in_order_and_answered_when_all_of_it_is_there() -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.put("/v1/queues", json=TREE, headers={"Idempotency-Key": "k"}))
        while len(harness.log.queue_requests) < 3:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        specs = [request.spec for request in harness.log.queue_requests.values()]
        harness.view.queue_rows = [QueueView(name=spec.name, cluster="atlas", spec=spec) for spec in specs[:2]]
        await asyncio.sleep(0.1)
        assert not asked.done()
        harness.view.queue_rows.append(QueueView(name="pink", cluster="atlas", spec=specs[2]))
    assert list(harness.log.queue_requests) == ["k-1", "k-2", "k-3"]
    assert [spec.name for spec in specs] == ["org", "red", "pink"]
    assert [row["name"] for row in asked.result().json()["queues"]] == ["org", "red", "pink"]
    assert harness.scheduler.accepted == ["org", "red"], "each is checked as if those before it were there"


async def test_a_tree_in_which_one_queue_may_not_be_is_refused_whole_and_names_it() -> None:
    harness = FakeHarness()
    harness.scheduler.check, harness.scheduler.checked = QueueCheckAnswer(field="parent", reason="a cycle"), "red"
    async with harness.client("olga") as client:
        answer = await client.put("/v1/queues", json=TREE)
    assert (answer.status_code, answer.json()["field"]) == (422, "queues.1.parent")
    assert answer.json()["detail"] == "queue red: a cycle"
    assert harness.log.queue_requests == {}


async def test_of_a_tree_that_is_only_asked_for_those_are_told_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)
    harness = FakeHarness()
    harness.view.queue_rows = [QueueView(name="org", cluster="atlas", spec=QueueSpec(name="org"))]
    async with harness.client("olga") as client:
        answer = await client.put("/v1/queues", json=TREE)
    assert (answer.status_code, [row["name"] for row in answer.json()["queues"]]) == (202, ["org"])


@pytest.mark.parametrize(
    ("who", "body", "status", "field"),
    [
        ("ann", TREE, 403, "Authorization"),
        ("olga", {"queues": []}, 422, "queues"),
        ("olga", {"queues": [{"name": "q"}] * 257}, 422, "queues"),
        ("olga", {"queues": [{"name": "q", "quota": {"gpu": 1}}]}, 422, "queues.0.quota.gpu"),
        ("olga", [], 422, "body"),
    ],
)
async def test_trees_that_are_refused(who: str, body: object, status: int, field: str | None) -> None:
    harness = FakeHarness()
    async with harness.client(who) as client:
        answer = await client.put("/v1/queues", json=body)
    assert (answer.status_code, answer.json().get("field")) == (status, field)
    assert harness.log.queue_requests == {}


async def test_facts_are_listed_newest_last_and_by_team() -> None:
    harness = FakeHarness()
    harness.feed.tell(fact(1), team="blue")
    harness.feed.tell(fact(2), team="red")
    harness.feed.tell(fact(3), team="blue")
    async with harness.client() as client:
        every = (await client.get("/v1/events", params={"limit": 2})).json()["facts"]
        blue = (await client.get("/v1/events", params={"team": "blue"})).json()["facts"]
    assert ([f["seq"] for f in every], [f["seq"] for f in blue]) == ([2, 3], [1, 3])


async def test_a_job_followed_to_its_end_tells_each_fact_once() -> None:
    harness = FakeHarness()
    job = "A" * 26
    harness.view.rows[job] = row(job)
    harness.view.facts[job] = [fact(1, "submitted", stream=FED), fact(4, "queued"), fact(5, "placed")]
    for old in (fact(4, "queued"), fact(9, "queued", job="B" * 26)):
        harness.feed.tell(old)
    harness.feed.tell(fact(10, "succeeded"))
    harness.feed.position = lambda: {FED: 0, LOG: 3}  # type: ignore[method-assign]
    async with harness.client() as client:
        answer = await client.get(f"/v1/jobs/{job}/events", params={"follow": "true"})
    told = [line for line in answer.text.splitlines() if line.startswith("id: ")]
    assert told == ["id: FED:1", "id: FED:1,LOG_atlas:4", "id: FED:1,LOG_atlas:5", "id: FED:1,LOG_atlas:10"]


async def test_a_cursor_that_makes_no_sense_is_refused() -> None:
    async with FakeHarness().client() as client:
        answer = await client.get("/v1/events", params={"follow": "true", "after": "x"})
    assert (answer.status_code, answer.json()["field"]) == (422, "after")


async def test_what_the_api_does_not_have_is_told_with_what_it_has() -> None:
    async with FakeHarness().client() as client:
        nowhere = await client.get("/v1/jbos")
        unknown = await client.put(f"/v1/jobs/{'A' * 26}")
    assert (nowhere.status_code, nowhere.json()["field"]) == (404, "path")
    assert "GET /v1/jbos" in nowhere.json()["detail"]
    assert (unknown.status_code, unknown.json()["field"]) == (405, "method")
    assert unknown.headers["allow"] == "DELETE, GET, PATCH"


async def test_the_document_describes_bodies_and_every_route_and_resolves() -> None:
    async with FakeHarness().client("") as client:
        document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    assert document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/JobSpec"
    }
    assert list(document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    references = {text.rsplit("/", 1)[1] for text in _references(document)}
    assert references <= schemas.keys()
    assert "TaskGroup" in references


async def test_the_page_of_the_api_shows_every_operation_and_loads_nothing() -> None:
    async with FakeHarness().client("") as client:
        document = (await client.get("/openapi.json")).json()
        page = await client.get("/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<h2>{method.upper()} {path}</h2>" in page.text
    assert "JobSpec" in page.text
    assert "<script" not in page.text
    assert "://" not in page.text


async def test_health_and_metrics_are_open() -> None:
    harness = FakeHarness()
    async with harness.client("") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        await harness.harness.catalogue.newer()
        assert (await client.get("/readyz")).status_code == 200
        assert 'route="/healthz"' in (await client.get("/metrics")).text


def _references(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in _references(value)]
    if isinstance(node, list):
        return [found for value in node for found in _references(value)]
    return []
