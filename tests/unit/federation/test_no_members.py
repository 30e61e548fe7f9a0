"""Addresses that lead to no member: nothing is drafted for them, and what waits says why."""

from kit.federation import VirtualFederation, belief, job
from muster.core.virtual import recover
from muster.federation.core import FederationCore, MemberPlan
from muster.federation.core.answers import answer_assignment, answer_federation
from muster.federation.core.turns import UNKNOWN_CLUSTER
from muster.schemas.facts.federation import JobRerouteRequested
from muster.schemas.facts.job_requests import Ask
from muster.schemas.facts.node import CordonRequested
from muster.schemas.facts.workload import JobRefused
from muster.schemas.job import Job, WorkloadRef
from muster.schemas.members import AskAssignment, AskFederation, AssignmentView
from muster.schemas.routing import RoutingPolicy

ATLAS, NOWHERE = MemberPlan("atlas"), MemberPlan("nowhere")


def planted(name: str = "planted") -> Job:
    """The job of an object of a cluster that is none."""
    origin = WorkloadRef(
        cluster="nowhere", api_version="muster.dev/v1alpha1", kind="MusterJob", namespace="lab", name=name, uid=name
    )
    return job(name).model_copy(update={"origin": origin})


def addressed(world: VirtualFederation) -> set[str]:
    return {fact.cluster for fact in world.log if fact.writer == "federation" and fact.cluster}


def restarted(world: VirtualFederation, *members: MemberPlan, from_checkpoint: bool = False) -> VirtualFederation:
    """The same log under settings that name these clusters."""
    again = VirtualFederation(members=members, policy=RoutingPolicy())
    again.log, again.seq, again.now = list(world.log), world.seq, world.now
    recover(again.core, world.snapshot() if from_checkpoint else (), world.log)
    return again


def told(core: FederationCore, one: Job, world: VirtualFederation) -> AssignmentView:
    return answer_assignment(core, AskAssignment(job_id=one.id), world.now)


def test_a_job_for_a_cluster_that_is_no_member_waits_visibly_and_others_are_routed() -> None:
    world, bad, good = VirtualFederation(), planted(), job("good")
    world.submit(bad)
    world.submit(good)
    world.settle()
    assert world.names(bad) == []
    assert world.names(good) == ["routed"]
    assert addressed(world) == {"atlas"}
    found = told(world.core, bad, world)
    assert found.waiting == UNKNOWN_CLUSTER
    assert "nowhere" in found.detail
    assert "atlas" in found.detail
    (waiting,) = answer_federation(world.core, AskFederation(), world.now).waiting
    assert (waiting.reason, waiting.jobs) == (UNKNOWN_CLUSTER, 1)


def test_thousands_of_such_jobs_keep_no_other_waiting() -> None:
    world, good = VirtualFederation(), job("good")
    for number in range(3_000):
        world.submit(planted(f"planted-{number}"))
    world.submit(good)
    world.decide_once("federation")
    world.settle()
    assert world.names(good) == ["routed"]
    assert not world.core.state.dirty
    assert world.core.next_wakeup() is None


def test_such_a_job_ends_once_it_is_cancelled() -> None:
    world, bad = VirtualFederation(), planted()
    world.submit(bad)
    world.settle()
    world.cancel(bad)
    world.settle()
    assert world.names(bad) == ["cancelled"]
    assert not world.core.state.stranded


def test_such_a_job_is_routed_once_its_cluster_is_a_member() -> None:
    world, bad = VirtualFederation(), planted()
    world.submit(bad)
    world.settle()
    for from_checkpoint in (False, True):
        again = restarted(world, ATLAS, NOWHERE, from_checkpoint=from_checkpoint)
        assert [(draft.name, draft.cluster) for draft in again.core.decide(again.now)] == [("routed", "nowhere")]


def test_nothing_that_people_ask_of_a_cluster_that_is_no_member_is_drafted() -> None:
    world = VirtualFederation()
    world.compose("r1", cluster="nowhere")
    world.decompose("r1", cluster="nowhere")
    world.detach("GPU-1", cluster="nowhere")
    cordon = CordonRequested(principal="olga", reason="fan", cluster="nowhere")
    world.write("gateway", "node", "n1", "cordon-requested", cordon)
    refused = JobRefused(workload="u-1", cluster="nowhere", reason="no such queue")
    world.write("gateway", "job", planted().id, "refused", refused)
    world.change("batch")
    world.settle()
    assert addressed(world) == {"atlas"}
    assert world.names(planted()) == []
    assert world.core.state.anomalies.total() == 5


def test_what_a_checkpoint_kept_for_a_removed_cluster_is_forwarded_to_nobody() -> None:
    world = VirtualFederation(members=(ATLAS, NOWHERE))
    world.compose("r1", cluster="nowhere")
    cordon = CordonRequested(principal="olga", reason="fan", cluster="nowhere")
    world.write("gateway", "node", "n1", "cordon-requested", cordon)
    world.write("gateway", "job", planted().id, "refused", JobRefused(workload="u-1", cluster="nowhere"))
    again = restarted(world, ATLAS, from_checkpoint=True)
    assert again.core.decide(again.now) == []


def on_a_removed_cluster() -> tuple[VirtualFederation, Job]:
    """A job that was routed to a cluster which the settings name no more."""
    world, one = VirtualFederation(members=(NOWHERE, ATLAS)), job("one")
    world.submit(one)
    world.settle()
    assert world.last("routed", one.id).cluster == "nowhere"
    return world, one


def test_a_job_of_a_removed_cluster_waits_for_it_and_holds_nothing_up() -> None:
    before, one = on_a_removed_cluster()
    for from_checkpoint in (False, True):
        world = restarted(before, ATLAS, from_checkpoint=from_checkpoint)
        world.cancel(one)
        world.ask(one, Ask.HOLD)
        world.submit(job("two"))
        already = len(world.log)
        world.settle()
        assert [(fact.name, fact.cluster) for fact in world.log[already:]] == [("routed", "atlas")]
        found = told(world.core, one, world)
        assert (found.cluster, found.waiting, found.has_ended) == ("nowhere", UNKNOWN_CLUSTER, False)
        assert belief(world.recover()) == belief(world.core)

        back = restarted(world, ATLAS, NOWHERE, from_checkpoint=True)
        asked = [(draft.name, draft.cluster) for draft in back.core.decide(back.now)]
        assert ("cancel-forwarded", "nowhere") in asked


def test_a_job_of_a_removed_cluster_cannot_be_moved_and_who_asks_is_told() -> None:
    before, one = on_a_removed_cluster()
    world = restarted(before, ATLAS)
    world.write("gateway", "job", one.id, "reroute-requested", JobRerouteRequested(principal="ada", to="atlas"))
    world.settle()
    refused = world.last("reroute-refused", one.id)
    assert "nowhere" in refused.payload.reason
    assert refused.cluster == ""


def test_jobs_of_a_removed_cluster_count_against_no_limit_of_their_team() -> None:
    before, one = on_a_removed_cluster()
    world = restarted(before, ATLAS)
    assert world.core.state.used == {}
    world.copy(world.report(one, cluster="nowhere"))
    assert world.core.state.used == {}
    assert world.core.state.jobs[one.id].phase.is_terminal
