"""Jobs that stand for an object of a cluster: they run there, their refusals are told there."""

from kit.federation import START, VirtualFederation, belief, job
from muster.core import Fact
from muster.federation.core import MemberPlan
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobSubmitted
from muster.schemas.facts.workload import JobRefused
from muster.schemas.job import Job, WorkloadRef

ORIGIN = WorkloadRef(
    cluster="borg", api_version="muster.dev/v1alpha1", kind="MusterJob", namespace="lab", name="train", uid="u-1"
)
BOTH = (MemberPlan("atlas"), MemberPlan("borg"))
REFUSED = JobRefused(workload="u-1", cluster="borg", reason="unknown queue 'nowhere'", field="queue")


def of_an_object(name: str) -> Job:
    return job(name).model_copy(update={"origin": ORIGIN})


def refuse(world: VirtualFederation, one: Job) -> Fact:
    return world.write("gateway", "job", one.id, "refused", REFUSED, trace=one.trace)


def test_a_job_of_an_object_runs_in_the_objects_cluster_whatever_the_rules_say() -> None:
    world, one = VirtualFederation(members=BOTH), of_an_object("one")
    world.submit(one)
    world.settle()
    routed = world.last("routed", one.id)
    assert routed.cluster == routed.payload.cluster == "borg"
    assert routed.payload.job.origin == ORIGIN


def test_a_job_of_an_object_that_is_cancelled_before_it_was_routed_is_ended_by_its_cluster() -> None:
    world, one = VirtualFederation(members=BOTH), of_an_object("one")
    world.submit(one)
    world.cancel(one)
    world.settle()
    assert world.names(one) == ["routed", "cancel-forwarded"]
    assert world.last("cancel-forwarded", one.id).cluster == "borg"


def test_a_refusal_is_forwarded_once_to_the_cluster_of_the_object() -> None:
    world, one = VirtualFederation(members=BOTH), of_an_object("one")
    refused = refuse(world, one)
    world.settle()
    assert world.names(one) == ["refusal-forwarded"]
    forwarded = world.last("refusal-forwarded", one.id)
    assert (forwarded.cluster, forwarded.payload, forwarded.causes) == ("borg", REFUSED, (refused.id,))
    assert forwarded.trace == one.trace


def test_a_checkpoint_keeps_refusals_that_were_not_forwarded() -> None:
    world, one = VirtualFederation(members=BOTH), of_an_object("one")
    refuse(world, one)
    recovered = world.recover()
    assert belief(recovered) == belief(world.core)
    assert recovered.decide(START) == world.core.decide(START) != []


def test_a_submission_without_an_object_follows_the_rules() -> None:
    world, one = VirtualFederation(), job("one")
    world.write("gateway", "job", one.id, "submitted", JobSubmitted(job=one))
    world.settle()
    assert world.last("routed", one.id).cluster == "atlas"


def test_a_job_of_an_object_that_its_cluster_gives_back_goes_there_again_and_nowhere_else() -> None:
    world, one = VirtualFederation(members=BOTH), of_an_object("one")
    world.submit(one)
    world.settle()
    world.write("federation", "job", one.id, "job-returned", JobReturned(assignment=1, cluster="borg"))
    world.settle()
    assert world.names(one).count("routed") == 2
    again = world.last("routed", one.id)
    assert (again.cluster, again.payload.assignment) == ("borg", 2)
    assert not len(world.core.state.pending)
