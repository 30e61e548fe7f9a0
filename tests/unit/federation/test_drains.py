"""Clusters are drained and resumed; jobs that have not started move, keeping their age; a person may move one, too."""

from kit.federation import belief, job
from kit.federation_clusters import FederatedClusters
from kit.federation_phases import phase
from muster.core import after
from muster.schemas.facts.federation import ClusterPhase, JobRerouteRequested, JobReturned
from muster.schemas.facts.job_requests import Ask


def test_a_drained_cluster_gets_no_new_jobs_and_is_asked_for_those_that_have_not_started() -> None:
    world, old, new = FederatedClusters(), job("old"), job("new")
    world.submit_all(old)
    world.drain("east", "west")
    world.submit_all(new)
    assert (phase(world), world.where(new)) == (ClusterPhase.DRAINING, "west")
    recalled = world.last("recall-forwarded", old.id)
    assert (recalled.cluster, recalled.payload.assignment) == ("east", 1)
    assert world.where(old) == "east", "it is there until the cluster gives it back"


FORWARDED = frozenset({"hold-forwarded", "priority-forwarded", "requeue-forwarded", "edit-forwarded"})


def test_what_was_given_back_goes_elsewhere_with_its_age_and_what_was_asked_of_it() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    world.ask(one, Ask.HOLD, reason="wrong data")
    world.ask(one, Ask.PRIORITY, priority=90)
    world.requeue(one)
    world.edit(one, total_run_time_s=60.0)
    world.settle()
    world.now = after(world.now, 100)
    world.drain("east", "west")
    world.give_back(one)
    routed = world.last("routed", one.id)
    assert (routed.cluster, routed.payload.assignment) == ("west", 2)
    assert 100 <= routed.payload.age_s < 101
    told = [(fact.name, fact.cluster) for fact in world.log if fact.name in FORWARDED]
    assert told[2:4] == [("edit-forwarded", "east"), ("requeue-forwarded", "east")]
    assert told[4:] == [("hold-forwarded", "west"), ("priority-forwarded", "west"), ("edit-forwarded", "west")]


def test_what_has_started_finishes_there_and_then_the_cluster_is_drained() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    world.drain("east")
    world.keep(one)
    assert (phase(world), world.where(one)) == (ClusterPhase.DRAINING, "east")
    world.end_job(one)
    assert phase(world) is ClusterPhase.DRAINED
    assert world.last("drained", "east").causes == (world.last("draining", "east").id,)


def test_a_pinned_job_is_not_asked_back() -> None:
    world, one = FederatedClusters(), job("one", pin=True)
    world.submit_all(one)
    world.drain("east")
    assert world.names(one) == ["routed"]


def test_a_resumed_cluster_gets_jobs_again() -> None:
    world = FederatedClusters()
    world.drain("east")
    assert phase(world) is ClusterPhase.DRAINED
    world.resume("east")
    world.submit_all(job("one"))
    assert (phase(world), world.where(job("one"))) == (ClusterPhase.ACTIVE, "east")


def test_with_nowhere_to_go_jobs_wait_with_the_federation() -> None:
    world, one = FederatedClusters(), job("one")
    world.drain("west")
    world.drain("east")
    world.submit_all(one)
    assert world.where(one) == ""
    world.resume("west")
    assert world.where(one) == "west"


def test_what_cannot_be_drained_or_resumed_is_refused() -> None:
    world = FederatedClusters()
    world.drain("moon")
    world.drain("east", "moon")
    world.drain("east", "east")
    world.resume("west")
    refused = [(f.subject_id, f.name, f.payload.reason) for f in world.log if f.name.endswith("refused")]
    assert refused == [
        ("moon", "drain-refused", "there is no cluster moon; the clusters are east, west"),
        ("east", "drain-refused", "to: there is no cluster moon; the clusters are east, west"),
        ("east", "drain-refused", "to: east is the cluster itself; use other clusters, or none"),
        ("west", "resume-refused", "the cluster is active, and not drained"),
    ]
    assert phase(world) is ClusterPhase.ACTIVE


def test_a_job_is_moved_by_hand_while_it_has_not_started() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    world.reroute(one, "west")
    world.give_back(one)
    assert world.where(one) == "west"
    assert world.last("routed", one.id).payload.rule == "as asked"


def test_a_job_that_is_moved_to_no_cluster_by_name_goes_to_another() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    assert world.where(one) == "east"
    world.reroute(one)
    world.write("federation", "job", one.id, "job-returned", JobReturned(assignment=1, cluster="east"))
    assert belief(world.recover()) == belief(world.core), "also from a checkpoint"
    world.settle()
    assert world.where(one) == "west"


def test_where_no_other_takes_it_a_job_that_is_moved_goes_back() -> None:
    world, one = FederatedClusters(), job("one")
    world.drain("west")
    world.submit_all(one)
    world.reroute(one)
    world.give_back(one)
    assert (world.where(one), world.last("routed", one.id).payload.assignment) == ("east", 2)


def test_a_job_that_cannot_be_moved_stays_and_who_asked_is_told() -> None:
    world, one, pinned = FederatedClusters(), job("one"), job("pinned", pin=True)
    world.submit_all(one, pinned)
    world.reroute(one, "west")
    world.keep(one)
    world.reroute(one, "moon")
    world.reroute(one, "east")
    world.reroute(pinned, "west")
    told = [fact.payload.reason for fact in world.log if fact.name == "reroute-refused"]
    assert told == [
        "it has started",
        "there is no cluster moon; the clusters are east, west",
        "it is on east already",
        "it is pinned to east",
    ]
    assert (world.where(one), world.where(pinned)) == ("east", "east")


def test_a_cancellation_of_a_job_that_is_on_its_way_ends_it() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    world.reroute(one, "west")
    world.cancel(one)
    world.settle()
    world.give_back(one)
    assert world.names(one)[-2:] == ["job-returned", "cancelled"]


def test_an_end_that_passes_the_recall_is_the_end() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    world.drain("east", "west")
    world.end_job(one)
    world.keep(one)
    assert world.core.state.jobs[one.id].phase.is_terminal
    assert phase(world) is ClusterPhase.DRAINED


def test_a_core_from_a_checkpoint_goes_on_at_every_step_of_a_move() -> None:
    world, one = FederatedClusters(), job("one")
    steps = [
        lambda: world.submit_all(one),
        lambda: world.drain("east"),
        lambda: world.drain("west"),
        lambda: world.give_back(one),
        lambda: world.drain("moon"),
        lambda: world.resume("west"),
    ]
    for step in steps:
        step()
        recovered = world.recover()
        assert belief(recovered) == belief(world.core)
        assert recovered.decide(world.now) == world.core.decide(world.now) == []
    assert world.where(one) == "west"


def test_jobs_that_were_routed_while_the_drain_began_are_asked_back_too() -> None:
    world, ones = FederatedClusters(), [job(f"j{index}") for index in range(4)]
    for one in ones:
        world.submit(one)
    world.drain("east")  # folded together with what was submitted: one decision answers both
    there = [one for one in ones if world.where(one) == "east"]
    assert there
    assert all("recall-forwarded" in world.names(one) for one in there)


def test_a_refused_move_by_hand_keeps_no_job_on_a_drained_cluster() -> None:
    world, one = FederatedClusters(), job("one")
    world.submit_all(one)
    world.write("gateway", "job", one.id, "reroute-requested", JobRerouteRequested(principal="ada", to="moon"))
    world.drain("east")
    assert world.names(one)[-2:] == ["reroute-refused", "recall-forwarded"]
