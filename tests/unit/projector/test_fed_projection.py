"""What the federation's log looks like to people: jobs that no cluster tells of."""

from kit.projector import Story, a_job
from muster.projector.core import FedProjectorCore
from muster.projector.core.changes import Changes
from muster.schemas.facts.federation import JobRecalled, JobReturned
from muster.schemas.facts.job import JobEnded, JobFinished, JobRouted, RoutedState
from muster.schemas.facts.job_requests import Ask, JobHoldRequested, JobPriorityRequested
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME
from muster.schemas.views import JobView


def project(story: Story) -> tuple[FedProjectorCore, Changes]:
    core = FedProjectorCore()
    for fact in story.facts:
        core.apply(fact)
    return core, core.take(facts_after=0)


def test_a_submitted_job_is_seen_before_any_cluster_has_it() -> None:
    story, job = Story("gateway"), a_job(1)
    story.submitted(job)
    _, changes = project(story)
    view = JobView.model_validate_json(changes.jobs[0].body)
    assert (view.id, view.phase, view.submitted_at) == (job.id, Phase.SUBMITTED, 1)
    assert changes.jobs[0].listed


def test_a_routed_job_stays_but_is_no_longer_found_by_its_phase() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    _, changes = project(story)
    assert JobView.model_validate_json(changes.jobs[0].body).cluster == "atlas"
    assert not changes.jobs[0].listed


def test_a_fact_that_the_clusters_log_has_too_is_shown_there_alone() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    _, changes = project(story)
    assert [fact.seq for fact in changes.facts] == [1]


def test_what_is_asked_of_a_job_is_shown_and_what_is_forwarded_only_by_its_cluster() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    hold, priority = JobHoldRequested(principal="ann"), JobPriorityRequested(principal="ann", priority=90)
    for ask in Ask:
        for how in ("requested", "forwarded"):
            story.add("job", job.id, f"{ask.value}-{how}", priority if ask is Ask.PRIORITY else hold)
    _, changes = project(story)
    assert [fact.seq for fact in changes.facts] == [1, 3, 5, 7]


def test_a_job_whose_end_came_back_is_taken_away() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    story.came_back(job)
    core, changes = project(story)
    assert [change.id for change in changes.removed] == [job.id]
    assert changes.jobs == []
    assert core.jobs_live == 0


def test_a_job_cancelled_before_it_was_routed_ends_here() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.add("job", job.id, "cancelled", JobFinished(reason="never routed"))
    core, changes = project(story)
    assert JobView.model_validate_json(changes.jobs[0].body).phase is Phase.CANCELLED
    assert core.jobs_live == 0


def test_a_job_that_left_its_cluster_is_seen_as_waiting_until_another_has_it() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    story.add("job", job.id, "job-returned", JobReturned(assignment=1, cluster="atlas"))
    core, changes = project(story)
    assert JobView.model_validate_json(changes.jobs[0].body).cluster == ""
    assert changes.jobs[0].listed
    fact = story.add("job", job.id, "routed", JobRouted(job=job, cluster="borg", assignment=2))
    core.apply(fact)
    (change,) = core.take(facts_after=0).jobs
    assert (JobView.model_validate_json(change.body).cluster, change.listed) == ("borg", False)


def test_the_end_of_an_earlier_assignment_takes_no_row_away() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    story.add("job", job.id, "drop-forwarded", JobRecalled(assignment=1))
    story.add("job", job.id, "routed", JobRouted(job=job, cluster="borg", assignment=2))
    for assignment in (1, 2):
        core, _ = project(story)
        assert core.jobs_live == 1
        ended = JobEnded(cluster="atlas", phase=Phase.SUCCEEDED, ended_at=1, assignment=assignment)
        story.add("job", job.id, "job-ended", ended)
    core, _ = project(story)
    assert core.jobs_live == 0


def project_of_two(story: Story) -> tuple[FedProjectorCore, Changes]:
    core = FedProjectorCore(clusters=2, ended_kept=1)
    for fact in story.facts:
        core.apply(fact)
    return core, core.take(facts_after=0)


def test_of_several_clusters_it_is_told_which_one_has_each_live_job() -> None:
    story, job, waiting = Story(), a_job(1), a_job(2)
    for one in (job, waiting):
        story.submitted(one)
    story.routed(job)
    _, changes = project_of_two(story)
    assert {change.id: change.cluster for change in changes.jobs} == {job.id: "atlas", waiting.id: ""}


def test_of_several_clusters_the_one_that_had_an_ended_job_stays_known() -> None:
    story, job = Story(), a_job(1)
    story.submitted(job)
    story.routed(job)
    story.came_back(job)
    core, changes = project_of_two(story)
    view = JobView.model_validate_json(changes.jobs[0].body)
    assert (view.cluster, view.phase, view.ended_at) == ("atlas", Phase.SUCCEEDED, 1)
    assert (changes.removed, core.jobs_live) == ([], 0)
    assert core.knows(job.id)


def test_ended_jobs_are_held_in_bounds_for_each_cluster() -> None:
    story, jobs = Story(), [a_job(number) for number in range(3)]
    for job in jobs:
        story.submitted(job)
        story.routed(job)
        story.came_back(job)
    core, _ = project_of_two(story)
    assert [core.knows(job.id) for job in jobs] == [False, True, True]


def test_a_checkpoint_says_which_cluster_had_an_ended_job() -> None:
    job = a_job(1)
    ended = RoutedState(job=job, job_id=job.id, cluster="borg", phase=Phase.FAILED, assignment=2)
    story = Story("federation")
    story.add("job", job.id, STATE_NAME, ended)
    _, of_several = project_of_two(story)
    assert JobView.model_validate_json(of_several.jobs[0].body).cluster == "borg"
    _, of_one = project(story)
    assert of_one.jobs == []
