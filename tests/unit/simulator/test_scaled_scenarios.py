"""Scenarios that scale: what is expected of them, and what cannot be."""

import json

import pytest

from muster.simulator.errors import InputError
from muster.simulator.scenario import differences, parse, simulate
from unit.simulator.worlds import pending, running

FLEX = {"name": "flex", "composable": True, "model": "A100", "nodes": 1, "gpus": 1, "gpus_max": 4}


def scenario(*, expect: dict[str, object] | None = None, **scaling: object) -> str:
    parts = {"groups": [FLEX], "pool": {"A100": 2}, "for_s": 120, **scaling}
    jobs = [running("a", "q", 1, node="flex-0001"), pending("b", "q", 1)]
    return json.dumps(
        {"nodes": [], "queues": [{"name": "q"}], "jobs": jobs, "scaling": parts, "expect": {"scaling": expect}}
    )


def found(text: str) -> tuple[str, ...]:
    wanted = parse(text)
    return differences(wanted.expect, simulate(wanted))


def test_what_is_expected_of_scaling_is_compared_field_by_field() -> None:
    so = {"choices": [{"choice": "attach", "case": 2, "job": "b", "count": 1}], "groups": {"flex": {"gpus": 2}}}
    assert found(scenario(expect=so)) == ()
    assert found(scenario(expect={"choices": []})) == ("scaling.choices: expected [], found ['attach']",)
    assert found(scenario(expect={"choices": [{"choice": "attach", "job": "a"}]})) == (
        "scaling.choices[0].job: expected 'a', found ['b']",
    )
    assert found(scenario(expect={"pool": {"A100": 2}, "groups": {"flex": {"nodes": 2}}})) == (
        "scaling.groups.flex.nodes: expected 2, found 1",
        "scaling.pool.A100: expected 2, found 1",
    )


def test_expecting_scaling_of_what_does_not_scale_is_a_difference() -> None:
    text = json.dumps({"nodes": [{"name": "n", "gpus": 1}], "expect": {"scaling": {"choices": []}}})
    assert found(text) == ("scaling: expected, and not there",)


def test_a_scenario_says_what_was_chosen_and_how_everything_stands() -> None:
    outcome = simulate(parse(scenario())).to_json()["scaling"]
    assert isinstance(outcome, dict)
    (choice,) = outcome["choices"]
    assert (choice["choice"], choice["jobs"], choice["outcome"]) == ("attach", ["b"], "done")
    assert outcome["groups"] == {"flex": {"nodes": 1, "gpus": 2}}
    assert outcome["pool"] == {"A100": 1}


@pytest.mark.parametrize(
    ("scaling", "field"),
    [
        ({"groups": [FLEX, FLEX]}, "scaling.groups[1].name"),
        ({"groups": [{**FLEX, "nodes": 3, "nodes_max": 2}]}, "scaling.groups[0].nodes"),
        ({"groups": [{**FLEX, "gpus": 5}]}, "scaling.groups[0].gpus"),
        ({"groups": [{**FLEX, "model": []}]}, "scaling.groups[0].model"),
        ({"groups": []}, "scaling.groups"),
        ({"attach_s": -1}, "scaling.attach_s"),
        ({"quota": 1}, "scaling.quota"),
    ],
)
def test_scaling_that_cannot_be_is_refused_with_its_field(scaling: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as refused:
        simulate(parse(scenario(**scaling)))
    assert refused.value.field == field


def test_a_node_named_like_one_of_a_group_is_refused() -> None:
    text = json.loads(scenario())
    text["nodes"] = [{"name": "flex-0001", "gpus": 8}]
    with pytest.raises(InputError, match="flex-0001 belongs to a group"):
        simulate(parse(json.dumps(text)))
