"""What a centre believes of what its cells report: nothing about jobs that they were never given."""

from nats.aio.client import Client

from kit.federation import START, VirtualFederation, job
from muster.core import Draft
from muster.federation.core import MemberPlan
from muster.federation.core.copies import assignment_in, is_awaited
from muster.federation.reports import SUMMARY_S, Believing, Desk, Summaries
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import Assignment, JobReturned, JobReturnRefused, Reroute
from muster.schemas.facts.job import JobEnded
from muster.schemas.job import Phase

TWO = (MemberPlan("east"), MemberPlan("west"))


def routed() -> tuple[VirtualFederation, str]:
    """A job of the first cluster, by its first assignment."""
    world, one = VirtualFederation(members=TWO), job("a")
    world.submit(one)
    world.settle()
    assert world.core.state.jobs[one.id].cluster == "east"
    return world, one.id


def summary(cluster: str, jobs: int) -> tuple[Draft, str]:
    told = ClusterSummary(
        cluster=cluster, nodes=1, gpu_milli_total=0, gpu_milli_free=0, jobs_queued=jobs, jobs_running=0
    )
    return Draft("cluster", cluster, "cluster-summarised", told), f"{cluster}-{jobs}"


def test_a_cluster_is_heard_about_the_assignment_that_it_has_and_no_other() -> None:
    world, job_id = routed()
    state = world.core.state
    assert is_awaited(state, job_id, Assignment(cluster="east", number=1))
    assert not is_awaited(state, job_id, Assignment(cluster="east", number=2))
    assert not is_awaited(state, job_id, Assignment(cluster="west", number=1))
    assert not is_awaited(state, "unknown", Assignment(cluster="east", number=1))


def test_a_cluster_that_was_told_to_drop_a_job_is_heard_until_it_says_that_it_did() -> None:
    world, job_id = routed()
    past = Assignment(cluster="west", number=7)
    world.core.state.jobs[job_id].owed = (past,)
    assert is_awaited(world.core.state, job_id, past)


def test_a_report_says_whose_part_in_a_job_it_is_about() -> None:
    ended = JobEnded(cluster="east", phase=Phase.FAILED, ended_at=START, assignment=3)
    assert assignment_in(Draft("job", "j", "job-ended", ended)) == Assignment(cluster="east", number=3)
    assert assignment_in(summary("east", 1)[0]) is None


class Given(Believing):
    """Believes as FED says, in which every assignment stands."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(Client(), desk)

    async def _was_given(self, job_id: str, told: Assignment) -> bool:
        return True


async def test_what_nobody_waits_for_is_believed_once() -> None:
    world, job_id = routed()
    desk = Desk()
    desk.take(world.core)
    believes = Given(desk)

    async def says(name: str, payload: JobReturned | JobReturnRefused) -> list[bool]:
        return [await believes(Draft("job", job_id, name, payload)) for _ in range(3)]

    once, always = [True, False, False], [True, True, True]
    assert await says("job-returned", JobReturned(assignment=1, cluster="west")) == once
    assert await says("job-returned", JobReturned(assignment=1, cluster="east")) == always, "it may give it back"
    assert await says("job-return-refused", JobReturnRefused(assignment=1, cluster="east")) == once
    world.core.state.jobs[job_id].reroute = Reroute(fact="f", to=(), principal="ada", reason="", forwarded=True)
    assert await says("job-return-refused", JobReturnRefused(assignment=1, cluster="east")) == always, "it was asked"


def test_of_many_summaries_each_clusters_newest_is_said_once_in_a_while() -> None:
    waiting = Summaries()
    for jobs in range(100):
        waiting.offer(*summary("east", jobs))
    waiting.offer(*summary("west", 1))
    assert [fact_id for _, fact_id in waiting.due(50.0)] == ["east-99", "west-1"]
    waiting.offer(*summary("east", 100))
    waiting.offer(*summary("east", 101))
    assert waiting.due(50.0 + SUMMARY_S / 2) == []
    assert [fact_id for _, fact_id in waiting.due(50.0 + SUMMARY_S)] == ["east-101"]
    assert waiting.due(100.0) == []


async def test_whoever_asks_for_the_state_waits_for_the_first_core_and_then_has_the_newest() -> None:
    desk, first, second = Desk(), VirtualFederation().core, VirtualFederation().core
    assert desk.take(first) is first
    assert await desk.state() is first.state
    desk.take(second)
    assert await desk.state() is second.state
