"""Where jobs go: the first rule that matches, its clusters in order, and when one of them overflows."""

import pytest
from pydantic import ValidationError

from kit.federation import job
from kit.federation_clusters import EAST, WEST, FederatedClusters
from muster.federation.core import FederationCore
from muster.federation.core.routes import rule_for
from muster.schemas.job import TaskGroup
from muster.schemas.routing import RoutingPolicy

ALL_EAST = {"name": "rest", "clusters": [{"cluster": "east"}]}


def rules(*some: dict[str, object]) -> dict[str, object]:
    return {"rules": [*some, ALL_EAST]}


def to_west(**conditions: object) -> dict[str, object]:
    return {"name": "special", "clusters": [{"cluster": "west"}], **conditions}


def gpus(number: int, *models: str) -> tuple[dict[str, object], ...]:
    return (TaskGroup(gpus=number, gpu_models=models).model_dump(),)


@pytest.mark.parametrize(
    ("condition", "matching", "other"),
    [
        ({"teams": ["lab"]}, {}, {"team": "physics"}),
        ({"kinds": ["interactive"]}, {"kind": "interactive"}, {}),
        ({"labels": {"class": "secret"}}, {"labels": {"class": "secret"}}, {"labels": {"class": "open"}}),
        ({"models": ["B200"]}, {"task_groups": gpus(1, "H100", "B200")}, {"task_groups": gpus(1, "H100")}),
        ({"gpus_min": 8}, {"task_groups": gpus(8)}, {"task_groups": gpus(7)}),
        ({"gpus_max": 7}, {"task_groups": gpus(7)}, {"task_groups": gpus(8)}),
        ({"teams": ["lab"], "gpus_min": 8}, {"task_groups": gpus(8)}, {"task_groups": gpus(8), "team": "physics"}),
    ],
)
def test_a_rule_speaks_of_jobs_that_meet_all_its_conditions(
    condition: dict[str, object], matching: dict[str, object], other: dict[str, object]
) -> None:
    policy = RoutingPolicy.model_validate(rules(to_west(**condition)))
    assert rule_for(job("a", **matching), policy) == policy.rules[0]
    assert rule_for(job("b", **other), policy) == policy.rules[1]


def test_a_rule_may_name_users() -> None:
    policy = RoutingPolicy.model_validate(rules(to_west(users=["ada"])))
    one = job("one")
    assert rule_for(one, policy) == policy.rules[0]
    assert rule_for(one.model_copy(update={"principal": "bob"}), policy) == policy.rules[1]


def test_a_job_goes_by_the_first_rule_that_matches_and_is_told_which() -> None:
    world, one, other = FederatedClusters(policy=rules(to_west(teams=["lab"]))), job("one"), job("two", team="physics")
    world.submit_all(one, other)
    assert (world.where(one), world.where(other)) == ("west", "east")
    assert world.last("routed", one.id).payload.rule == "rule special"


def test_without_rules_every_job_goes_to_the_first_cluster() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    routed = world.last("routed", one.id).payload
    assert (routed.cluster, routed.assignment, routed.age_s, routed.rule) == ("east", 1, 0.0, "")


def test_rules_that_leave_a_job_without_a_cluster_are_refused() -> None:
    with pytest.raises(ValidationError, match="no conditions"):
        RoutingPolicy.model_validate({"rules": [to_west(teams=["lab"])]})


def test_rules_that_lead_to_a_cluster_that_is_none_are_refused() -> None:
    policy = RoutingPolicy.model_validate({"rules": [{"name": "all", "clusters": [{"cluster": "moon"}]}]})
    with pytest.raises(ValueError, match="no cluster moon; there are east, west"):
        FederationCore(members=(EAST, WEST), policy=policy)


def overflowing(**condition: object) -> dict[str, object]:
    return {"rules": [{"name": "all", "clusters": [{"cluster": "east", **condition}, {"cluster": "west"}]}]}


def test_jobs_go_on_to_the_next_cluster_where_too_many_wait_counting_those_routed_since_it_said_so() -> None:
    world = FederatedClusters(policy=overflowing(queue_max=3))
    world.summary("east", jobs_queued=1)
    world.submit_all(*(job(f"j{n}") for n in range(4)))
    assert [world.where(job(f"j{n}")) for n in range(4)] == ["east", "east", "west", "west"]
    world.summary("east", jobs_queued=2)
    world.submit_all(job("later"))
    assert world.where(job("later")) == "east"


def test_jobs_go_on_where_they_would_start_too_late() -> None:
    world = FederatedClusters(policy=overflowing(expected_start_s_max=60))
    first = [job(f"first-{n}") for n in range(4)]
    world.summary("east", gpu_milli_total=4000, gpu_milli_free=4000)
    world.submit_all(*first)
    world.summary("east", gpu_milli_total=4000, gpu_milli_free=0)
    for one in first[:3]:
        world.end_job(one)
    world.summary("east", gpu_milli_total=4000, gpu_milli_free=3000)
    small, large = job("small", task_groups=gpus(3)), job("large", task_groups=gpus(4))
    world.submit_all(small)
    assert world.where(small) == "east", "it fits at once"
    world.submit_all(large)
    assert world.where(large) == "west", "at 3 GPUs in 10 minutes it would wait long"


def test_what_is_not_known_of_a_cluster_is_no_overflow() -> None:
    world = FederatedClusters(policy=overflowing(queue_max=1, expected_start_s_max=1))
    world.submit_all(job("one"))
    assert world.where(job("one")) == "east"


def test_where_every_cluster_overflows_the_job_goes_to_the_first_unless_it_waits() -> None:
    full = {"name": "all", "clusters": [{"cluster": "east", "queue_max": 0}]}
    world = FederatedClusters(policy={"rules": [full]})
    world.summary("east", jobs_queued=5)
    world.submit_all(job("goes"))
    assert world.where(job("goes")) == "east"
    world.change_policy({"rules": [{"name": "all", "clusters": [{"cluster": "east", "queue_max": 1}], "waits": True}]})
    world.submit_all(job("waits"))
    assert world.where(job("waits")) == ""
    world.advance(30)
    world.summary("east", jobs_queued=0)
    assert world.where(job("waits")) == "east"
    assert world.last("routed", job("waits").id).payload.age_s == pytest.approx(30, abs=0.01), "its age counts there"


def test_another_policy_moves_nothing_that_has_a_cluster() -> None:
    world, before, later = FederatedClusters(), job("before"), job("later")
    world.submit_all(before)
    world.change_policy({"rules": [{"name": "all", "clusters": [{"cluster": "west"}]}]})
    world.submit_all(later)
    assert (world.where(before), world.where(later)) == ("east", "west")
    assert world.last("changed", "policy").payload.version == 1


@pytest.mark.parametrize(
    ("policy", "based_on", "field"),
    [
        ({"rules": [{"name": "all", "clusters": [{"cluster": "moon"}]}]}, 0, "rules"),
        ({}, 7, "based_on"),
    ],
)
def test_a_policy_that_cannot_stand_is_refused(policy: dict[str, object], based_on: int, field: str) -> None:
    world = FederatedClusters()
    world.change_policy(policy, based_on=based_on)
    refused = world.last("change-refused", "policy").payload
    assert (refused.field, refused.principal) == (field, "root")
    assert world.core.state.policy_version == 0
