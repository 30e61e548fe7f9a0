"""`?cluster=`: every route that one cluster's services answer asks those of the cluster that is named."""

from typing import cast

import pytest

from kit.http.gateway import FakeHarness, joined
from muster.gateway.http import document
from muster.schemas.apiserver import ApiServerReport
from muster.schemas.campaigns import CampaignsAnswer, CampaignView
from muster.schemas.conditions import Condition, ConditionsAnswer
from muster.schemas.devices import AttachmentPhase, DeviceView, FabricView
from muster.schemas.facts.upgrade import CampaignSpec
from muster.schemas.members import FederationView, MemberView
from muster.schemas.queries import ScaleChoiceView

SPEC = CampaignSpec.model_validate({"name": "driver", "component": "driver", "version": "1"})
ROUTES = (
    "/v1/conditions",
    "/v1/campaigns",
    "/v1/apiserver",
    "/v1/devices",
    "/v1/fabrics",
    "/v1/scale",
    "/v1/composability-requests",
    "/v1/nodes",
    "/v1/queues",
    "/v1/reservations",
    "/v1/jobs",
    "/v1/usage/top",
    "/v1/usage/idle",
    "/v1/usage/energy",
)


def filled(cluster: str) -> FakeHarness:
    """One cluster's services; whatever they tell says whose it is."""
    harness = FakeHarness()
    ill = Condition(kind="node", name=f"n-{cluster}", node=f"n-{cluster}", phase="suspect")
    campaign = CampaignView(name=f"c-{cluster}", spec=SPEC, state="going")
    harness.leaders.answers = {
        ("health", "conditions"): ConditionsAnswer(conditions=(ill,), known=True),
        ("upgrader", "campaigns"): CampaignsAnswer(campaigns=(campaign,)),
        ("federation", "federation"): FederationView(clusters=(MemberView(name="east"), MemberView(name="west"))),
    }
    harness.guard.told = ApiServerReport(cluster=cluster)
    phase = AttachmentPhase.ATTACHED
    harness.composer.device_rows = [
        DeviceView(id=cluster, cluster=cluster, model="H100", node="n", fabric="f", phase=phase)
    ]
    harness.composer.fabric_rows = [FabricView(name=f"f-{cluster}", cluster=cluster)]
    harness.scaler.choice_rows = [ScaleChoiceView(id=f"s-{cluster}", cluster=cluster, name="s000001", case=1)]
    return harness


def two() -> FakeHarness:
    """East, which is asked where no cluster is named, and west."""
    return joined({"east": filled("east"), "west": filled("west")})


@pytest.mark.parametrize(("query", "whose"), [("", "east"), ("?cluster=east", "east"), ("?cluster=west", "west")])
@pytest.mark.parametrize("route", ["/v1/conditions", "/v1/campaigns", "/v1/apiserver"])
async def test_the_cluster_that_is_named_answers_else_the_first(route: str, query: str, whose: str) -> None:
    async with two().client("eve") as client:
        told = (await client.get(route + query)).json()
    one = told["campaigns"][0] if "campaigns" in told else told
    assert one["cluster"] == whose
    for name in (*(each["name"] for each in told.get("conditions", ())), one.get("name", whose)):
        assert name.endswith(whose)


@pytest.mark.parametrize("route", ["/v1/devices", "/v1/fabrics", "/v1/scale"])
async def test_rows_of_services_are_those_of_the_cluster_that_is_named(route: str) -> None:
    async with two().client("eve") as client:
        (rows,) = (await client.get(route, params={"cluster": "west"})).json().values()
    assert [row["cluster"] for row in rows] == ["west"]


@pytest.mark.parametrize("route", ROUTES)
async def test_a_cluster_that_there_is_not_is_told_with_those_that_there_are(route: str) -> None:
    async with two().client("eve") as client:
        answer = await client.get(route, params={"cluster": "north"})
    assert (answer.status_code, answer.json()["field"]) == (404, "cluster")
    assert answer.json()["cure"] == "Use one of east, west."


@pytest.mark.parametrize("route", ROUTES)
async def test_who_bears_no_token_is_not_told_which_clusters_there_are(route: str) -> None:
    async with two().client("") as client:
        assert (await client.get(route, params={"cluster": "north"})).status_code == 401


async def test_what_is_asked_of_a_campaign_goes_to_the_cluster_that_is_named() -> None:
    harness = two()
    async with harness.client("olga") as client:
        await client.post("/v1/campaigns/c-west/pause", params={"cluster": "west"})
    (draft,) = harness.log.operations.values()
    assert getattr(draft.payload, "cluster", "") == "west"


async def test_the_federation_is_one_whatever_cluster_is_named() -> None:
    async with two().client("eve") as client:
        told = (await client.get("/v1/federation", params={"cluster": "west"})).json()
    assert [one["name"] for one in told["clusters"]] == ["east", "west"]


@pytest.mark.parametrize("route", ROUTES)
def test_the_document_tells_of_the_choice(route: str) -> None:
    paths = cast("dict[str, dict[str, dict[str, object]]]", document()["paths"])
    asked = paths[route]["get"]
    names = [one["name"] for one in cast("list[dict[str, str]]", asked["parameters"])]
    assert "cluster" in names
    assert "404" in cast("dict[str, object]", asked["responses"])
