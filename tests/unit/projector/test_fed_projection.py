"""What the federation's log looks like to people: jobs that no cluster tells of."""

from muster.projector.core import FedProjectorCore
from muster.projector.core.rows import Changes
from muster.schemas.facts.job import JobFinished
from muster.schemas.facts.job_wishes import Ask, JobHoldRequested, JobPriorityRequested
from muster.schemas.job import Phase
from muster.schemas.views import JobView
from projector_story import Story, a_job


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
