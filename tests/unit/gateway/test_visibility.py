"""What of other teams' jobs passes, by setting: pure, without a server."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kit.http.gateway import FakeHarness, fact, joined, live_ends
from muster.bus.clock import SystemTime
from muster.bus.gateway_settings import AccessSettings, OperatorSettings, ViewerSettings
from muster.gateway.authorise import Principal
from muster.gateway.feed import FedFact
from muster.gateway.live import Credentials
from muster.gateway.visibility import MASK, Sight, sight_of
from muster.schemas.access import Role
from muster.schemas.job import Phase
from muster.schemas.views import FactView, JobView

OWN, OTHER = "chemistry", "physics"
OUTLINE = Sight("outline", frozenset({OWN}))
NOTHING = Sight("nothing", frozenset({OWN}))


def spec(team: str) -> dict[str, object]:
    return {
        "name": "train", "team": team, "task_groups": [{"name": "a"}], "command": ["run", "--key=hunter2"],
        "labels": {"a": "b"}, "image": "image:1", "pod": {"env": {"TOKEN": "hunter2"}, "secret_env": [{"name": "KEY"}]},
    }  # fmt: skip


def told(payload: Mapping[str, object], *, team: str = OTHER) -> FedFact:
    shown = fact(1, "submitted").model_copy(update={"body": json.dumps(payload)})
    return FedFact("FED", 1, team, shown.model_dump_json().encode())


def payload_of(shown: FedFact | None) -> dict[str, object]:
    assert shown is not None
    found = json.loads(FactView.model_validate_json(shown.body).body)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "payload",
    [{"job": {"spec": spec(OTHER)}}, {"spec": spec(OTHER)}, spec(OTHER), {"jobs": [{"deep": [spec(OTHER)]}]}],
    ids=["job", "spec", "bare", "deep"],
)
def test_an_outline_has_neither_command_nor_environment_wherever_a_specification_stands(
    payload: dict[str, object],
) -> None:
    shown = OUTLINE.fact(told(payload))
    assert shown is not None
    assert b"hunter2" not in shown.body
    assert b"KEY" not in shown.body
    assert b"image:1" in shown.body


def test_the_team_that_a_specification_names_decides_not_the_fact_around_it() -> None:
    assert payload_of(OUTLINE.fact(told({"spec": spec(OWN)}, team=OTHER))) == {"spec": spec(OWN)}
    both = OUTLINE.fact(told({"a": spec(OWN), "b": spec(OTHER)}, team=OWN))
    assert both is not None
    assert payload_of(both)["a"] == spec(OWN)
    assert both.body.count(b"hunter2") == 2


def test_a_body_that_was_cut_tells_nothing() -> None:
    whole = FactView.model_validate_json(told({"spec": spec(OTHER)}).body)
    cut = whole.model_copy(update={"body": whole.body[:-5]}).model_dump_json().encode()
    assert FactView.model_validate_json(OUTLINE.body(cut)).body == ""


def test_what_holds_no_specification_passes_as_it_was_stored() -> None:
    plain = told({"queue": "q"})
    assert OUTLINE.fact(plain) is not None
    assert OUTLINE.body(plain.body) is plain.body
    assert Sight("all").fact(told(spec(OTHER))) is not None


def test_nothing_is_no_fact_of_others_and_no_id_of_theirs() -> None:
    assert NOTHING.fact(told({}, team=OTHER)) is None
    assert NOTHING.fact(told({}, team="")) is None, "whose it is nobody knows"
    own = fact(1, "queued", job="B" * 26).model_copy(update={"body": json.dumps({"for": "C" * 26, "job": "B" * 26})})
    shown = NOTHING.fact(FedFact("FED", 1, OWN, own.model_dump_json().encode()))
    assert payload_of(shown) == {"for": MASK, "job": "B" * 26}


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/snapshot", "/v1/live/credential", "/v1/added-later", ""])
def test_a_route_is_closed_to_who_sees_nothing_until_it_is_opened(path: str) -> None:
    assert not NOTHING.may_read(path)
    assert OUTLINE.may_read(path)


def test_each_role_has_its_default_and_its_setting() -> None:
    def seen(role: Role, access: AccessSettings) -> str:
        return sight_of(Principal("ann", role), access).others

    assert [seen(role, AccessSettings()) for role in Role] == ["outline", "outline", "all", "all"]
    changed = AccessSettings(viewer=ViewerSettings(other_teams="all"), operator=OperatorSettings(other_teams="outline"))
    assert [seen(role, changed) for role in Role] == ["all", "outline", "outline", "all"]
    assert sight_of(None, changed).others == "nothing"


def test_an_operator_who_does_not_see_all_listens_to_its_own_teams() -> None:
    operator = Principal("ann", Role.OPERATOR, frozenset({OWN}))
    time = SystemTime()
    whole = Credentials((), "", None, time, 20, live_ends(time))
    narrow = replace(whole, access=AccessSettings(operator=OperatorSettings(other_teams="outline")))
    assert whole.audiences(operator) == ("public", "*")
    assert narrow.audiences(operator) == ("public", OWN)


async def test_the_part_of_one_cluster_shows_no_more_than_the_whole() -> None:
    row = JobView(id="A" * 26, name="train", team=OTHER, principal="bob", queue="q", phase=Phase.QUEUED)
    east, west = FakeHarness(), FakeHarness()
    east.view.rows[row.id] = row
    east.view.facts[row.id] = [fact(1)]
    harness = joined({"east": east, "west": west}).harness.seen_by(NOTHING)
    for part in (harness, harness.of_cluster("east")):
        assert (await part.view.job(row.id)).row is None
        assert await part.view.trail(row.id) == ()
