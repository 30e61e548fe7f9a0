"""What the federation answers who asks: its clusters, what waits and why, where a job is, which policy may be."""

import pytest

from kit.federation import job
from kit.federation_clusters import LEASED, LOST_AFTER_S, MARGIN_S, FederatedClusters
from muster.federation.core import answers
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.job import Job
from muster.schemas.members import AskAssignment, AskFederation, AskRoutesCheck, AssignmentView, FederationView
from muster.schemas.routing import RoutingPolicy


def seen(world: FederatedClusters) -> FederationView:
    return answers.answer_federation(world.core, AskFederation(), world.now)


def assignment(world: FederatedClusters, one: Job) -> AssignmentView:
    return answers.answer_assignment(world.core, AskAssignment(job_id=one.id), world.now)


def test_clusters_are_told_with_what_they_said_last_and_what_they_were_given() -> None:
    world = FederatedClusters(LEASED)
    world.submit_all(job("one"), job("two"))
    world.summary("east", number=101, nodes=4, gpu_milli_total=32_000, gpu_milli_free=30_000, jobs_running=2)
    east, west = seen(world).clusters
    assert (east.name, east.state, east.jobs, east.gpus) == ("east", ClusterPhase.ACTIVE, 2, 2.0)
    assert (east.nodes, east.gpus_total, east.gpus_free, east.jobs_running) == (4, 32.0, 30.0, 2)
    assert (east.lost_after_s, east.heard_at) == (LOST_AFTER_S, world.now)
    assert east.gives_up_at == world.now + round((LOST_AFTER_S + MARGIN_S) * 1e9)
    assert (west.jobs, west.nodes, west.heard_at) == (0, 0, 0)


def test_a_drained_cluster_says_who_drains_it_and_where_to() -> None:
    world = FederatedClusters()
    world.drain("east", "west")
    east = seen(world).clusters[0]
    assert (east.state, east.to, east.by, east.reason) == (ClusterPhase.DRAINED, ("west",), "root", "to be replaced")


@pytest.mark.parametrize(
    ("policy", "reason", "words"),
    [
        ({"teams": [{"team": "lab", "gpus": 2}]}, "team-limit", "uses 0 of its limit of 2 GPUs over all"),
        (
            {"rules": [{"name": "all", "clusters": [{"cluster": "east", "queue_max": 0}], "waits": True}]},
            "overflow",
            "every cluster of rule all overflows",
        ),
    ],
)
def test_what_waits_is_told_why(policy: dict[str, object], reason: str, words: str) -> None:
    world, one = FederatedClusters(policy=policy), job("one", task_groups=({"gpus": 4},))
    world.summary("east", jobs_queued=1)
    world.submit_all(one)
    (waiting,) = seen(world).waiting
    assert (waiting.team, waiting.jobs, waiting.gpus, waiting.reason) == ("lab", 1, 4.0, reason)
    assert words in waiting.detail
    assert (assignment(world, one).waiting, assignment(world, one).cluster) == (reason, "")


def test_a_job_without_any_cluster_that_takes_jobs_is_told_so() -> None:
    world, one = FederatedClusters(), job("one")
    world.drain("east")
    world.drain("west")
    world.submit_all(one)
    assert assignment(world, one).waiting == "no-cluster"


def test_where_a_job_is_and_whether_it_is_on_its_way() -> None:
    world, one = FederatedClusters(), job("one")
    assert not assignment(world, one).known
    world.submit_all(one)
    world.reroute(one, "west")
    told = assignment(world, one)
    assert (told.cluster, told.assignment, told.moving) == ("east", 1, True)
    world.give_back(one)
    world.end_job(one, assignment=2, cluster="west")
    told = assignment(world, one)
    assert (told.assignment, told.rule, told.moving, told.has_ended) == (2, "as asked", False, True)


def test_a_policy_is_judged_before_it_is_asked_for() -> None:
    world = FederatedClusters()
    moon = RoutingPolicy.model_validate({"rules": [{"name": "all", "clusters": [{"cluster": "moon"}]}]})
    told = answers.answer_routes_check(world.core, AskRoutesCheck(policy=moon), world.now)
    assert (told.field, told.reason) == ("rules", "there is no cluster moon; the clusters are east, west")
    assert not answers.answer_routes_check(world.core, AskRoutesCheck(policy=RoutingPolicy()), world.now).field
    world.change_policy({"teams": [{"team": "lab", "gpus": 1}]})
    stands = answers.answer_routes(world.core, AskFederation(), world.now)
    assert (stands.version, stands.by, stands.policy.teams[0].team) == (1, "root", "lab")
