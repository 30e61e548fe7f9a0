"""The federation over HTTP: who may drain clusters, change routes and move jobs, what is stored and answered."""

import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.api import changes
from muster.schemas.facts.federation import (
    ClusterDrainRequested,
    ClusterPhase,
    ClusterResumeRequested,
    JobRerouteRequested,
    RoutingChangeRequested,
)
from muster.schemas.job import Phase
from muster.schemas.members import AssignmentView, FederationView, MemberView, RoutesCheckAnswer, RoutesView
from muster.schemas.routing import RoutingPolicy
from muster.schemas.views import JobView

JOB = "A" * 26
BODY = {"rules": [{"name": "all", "clusters": [{"cluster": "west", "queue_max": 10}]}]}
POLICY = RoutingPolicy.model_validate(BODY)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.01)
    monkeypatch.setattr(changes, "CHANGE_POLL_S", 0.0)


def a_harness(east: ClusterPhase = ClusterPhase.ACTIVE, *, version: int = 0, **check: str) -> FakeHarness:
    """Two clusters, the first in this state; checks of a policy are answered so."""
    harness = FakeHarness()
    harness.view.rows[JOB] = JobView(id=JOB, name="one", team="blue", principal="ann", queue="blue", phase=Phase.QUEUED)
    clusters = (MemberView(name="east", state=east), MemberView(name="west"))
    policy = POLICY if version else RoutingPolicy()
    harness.leaders.answers.update(
        {
            ("federation", "federation"): FederationView(clusters=clusters),
            ("federation", "routes"): RoutesView(policy=policy, version=version),
            ("federation", "routes-check"): RoutesCheckAnswer.model_validate(check),
            ("federation", "assignment"): AssignmentView(known=True, cluster="east", assignment=1),
        }
    )
    return harness


def stored(harness: FakeHarness) -> list[tuple[str, str, str, object]]:
    return [(draft.kind, draft.subject_id, draft.name, draft.payload) for draft in harness.log.operations.values()]


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 202)])
async def test_operators_drain_clusters(who: str, status: int) -> None:
    harness = a_harness()
    async with harness.client(who) as client:
        answer = await client.post("/v1/clusters/east/drain", params={"to": "west", "reason": "old"})
    assert answer.status_code == status
    payload = ClusterDrainRequested(principal="olga", reason="old", to=("west",))
    assert stored(harness) == ([("cluster", "east", "drain-requested", payload)] if status == 202 else [])


async def test_once_it_is_drained_the_cluster_is_answered() -> None:
    async with a_harness(ClusterPhase.DRAINING).client("olga") as client:
        answer = await client.post("/v1/clusters/east/drain")
    assert (answer.status_code, answer.json()["state"]) == (200, "draining")


async def test_a_cluster_is_resumed() -> None:
    harness = a_harness(ClusterPhase.DRAINED)
    async with harness.client("olga") as client:
        answer = await client.post("/v1/clusters/east/resume")
    assert answer.status_code == 202
    assert stored(harness) == [("cluster", "east", "resume-requested", ClusterResumeRequested(principal="olga"))]


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/v1/clusters/moon/drain", 404, "cluster"),
        ("/v1/clusters/moon/resume", 404, "cluster"),
        ("/v1/clusters/east/drain?to=moon", 422, "to"),
        ("/v1/clusters/east/drain?to=east", 422, "to"),
        ("/v1/jobs/{job}/reroute?to=moon", 422, "to"),
    ],
)
async def test_what_names_no_other_cluster_is_refused(path: str, status: int, field: str) -> None:
    harness = a_harness()
    async with harness.client("olga") as client:
        answer = await client.post(path.format(job=JOB))
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not harness.log.operations


@pytest.mark.parametrize(("version", "status"), [(0, 202), (3, 200)])
async def test_operators_change_where_jobs_go(version: int, status: int) -> None:
    harness = a_harness(version=version)
    async with harness.client("olga") as client:
        answer = await client.put("/v1/routes", json=BODY, params={"based_on": "2"})
    assert answer.status_code == status
    payload = RoutingChangeRequested(policy=POLICY, principal="olga", based_on=2)
    assert stored(harness) == [("routing", "policy", "change-requested", payload)]


@pytest.mark.parametrize(
    ("body", "params", "field"),
    [
        (BODY, {}, "rules"),
        ({"rules": [{**BODY["rules"][0], "teams": ["lab"]}]}, {}, "rules"),
        ({"rules": [{"name": "all", "clusters": []}]}, {}, "rules.0.clusters"),
        (BODY, {"based_on": "new"}, "based_on"),
    ],
)
async def test_a_policy_that_cannot_stand_is_refused(body: object, params: dict[str, str], field: str) -> None:
    harness = a_harness(field="rules", reason="there is no cluster west")
    async with harness.client("olga") as client:
        answer = await client.put("/v1/routes", json=body, params=params)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not harness.log.operations


async def test_a_viewer_looks_and_changes_nothing() -> None:
    harness = a_harness()
    async with harness.client("eve") as client:
        federation = await client.get("/v1/federation")
        routes = await client.get("/v1/routes")
        assignment = await client.get(f"/v1/jobs/{JOB}/assignment")
        refused = [await client.put("/v1/routes", json=BODY), await client.post(f"/v1/jobs/{JOB}/reroute")]
    assert [one["name"] for one in federation.json()["clusters"]] == ["east", "west"]
    assert routes.json()["version"] == 0
    assert assignment.json()["cluster"] == "east"
    assert [answer.status_code for answer in refused] == [403, 403]


async def test_a_job_is_moved_by_whoever_acts_for_its_team() -> None:
    harness = a_harness()
    async with harness.client("ann") as client:
        answer = await client.post(f"/v1/jobs/{JOB}/reroute", params={"to": "west", "reason": "closer"})
    assert (answer.status_code, answer.json()["cluster"]) == (202, "east")
    payload = JobRerouteRequested(principal="ann", reason="closer", to="west")
    assert stored(harness) == [("job", JOB, "reroute-requested", payload)]


async def test_clusters_are_shown_with_where_the_federation_has_them() -> None:
    harness = FakeHarness()
    name = (await harness.scheduler.cluster()).name
    told = FederationView(clusters=(MemberView(name=name, state=ClusterPhase.LOST),))
    harness.leaders.answers["federation", "federation"] = told
    async with harness.client("eve") as client:
        answer = await client.get("/v1/clusters")
    assert [one["state"] for one in answer.json()["clusters"]] == ["lost"]


@pytest.mark.parametrize(
    ("told", "reason", "words"),
    [
        (AssignmentView(known=True, waiting="team-limit", detail="it has all"), "team-limit", "it has all"),
        (AssignmentView(known=True, cluster="west", rule="rule all"), "not-routed", "assigned to cluster west"),
        (AssignmentView(), "not-routed", "no scheduler of any cluster"),
    ],
)
async def test_a_job_that_no_cluster_has_is_told_why(told: AssignmentView, reason: str, words: str) -> None:
    harness = a_harness()
    harness.leaders.answers["federation", "assignment"] = told
    async with harness.client("eve") as client:
        answer = (await client.get(f"/v1/jobs/{JOB}/why")).json()
    assert answer["reason"] == reason
    assert words in answer["detail"]
    assert bool(answer["cure"]) == (reason == "team-limit")
