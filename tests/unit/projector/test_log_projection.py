"""What a cluster's log looks like to people."""

import json

import pytest

from kit.log import a_fact
from kit.projector import Story, a_job
from kit.projector_nodes import node_of, project
from muster.projector.core import ProjectorCore
from muster.projector.core.changes import Changes
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import (
    DrainRequest,
    GrantState,
    NodeJoined,
    NodeLost,
    NodeReturned,
    NodeState,
    Released,
    Withheld,
    WithholdWithdrawn,
)
from muster.schemas.job import Phase, Slot
from muster.schemas.views import FactView, JobView, NodeView, QueueView


def job_of(changes: Changes) -> JobView:
    return JobView.model_validate_json(changes.jobs[-1].body)


def queue_of(changes: Changes, name: str) -> QueueView:
    body = changes.queues[name]
    assert body is not None
    return QueueView.model_validate_json(body)


def test_a_placed_job_shows_where_it_is_and_the_node_and_queue_show_what_is_held() -> None:
    story, job = Story(), a_job(1)
    story.node("n1")
    story.queue("blue")
    story.routed(job)
    story.queued(job)
    story.placed(job)
    core, changes = project(story)
    view = job_of(changes)
    assert (view.phase, view.nodes, view.attempt, view.cluster) == (Phase.PLACED, ("n1",), 1, "atlas")
    assert (view.queued_at, view.placed_at, view.seq) == (5, 6, 6)
    node = node_of(changes, "n1")
    assert (node.usable, node.gpu_milli_held, node.cpu_milli_held, node.jobs) == (True, 2000, 1000, (job.id,))
    queue = queue_of(changes, "blue")
    assert (queue.jobs_queued, queue.jobs_running, queue.gpu_milli_held) == (0, 1, 2000)
    assert core.anomalies == 0


@pytest.mark.parametrize("name", ["succeeded", "failed", "cancelled", "timed-out"])
def test_an_ended_job_gives_everything_back_and_leaves_memory(name: str) -> None:
    story, job = Story(), a_job(1)
    story.node("n1")
    story.queue("blue")
    story.routed(job)
    story.queued(job)
    story.placed(job)
    story.running(job)
    story.ended(job, name)
    core, changes = project(story)
    view = job_of(changes)
    assert (view.phase.value, view.ended_at, view.reason) == (name, 8, "done")
    assert core.jobs_live == 0
    assert node_of(changes, "n1").gpu_milli_held == 0
    assert node_of(changes, "n1").jobs == ()
    assert queue_of(changes, "blue").jobs_running == 0


def test_a_job_that_waits_again_holds_nothing() -> None:
    story, job = Story(), a_job(1)
    story.node("n1")
    story.routed(job)
    story.queued(job)
    story.placed(job)
    story.queued(job, attempt=2)
    _, changes = project(story)
    view = job_of(changes)
    assert (view.phase, view.slots, view.placed_at, view.attempt) == (Phase.QUEUED, (), 0, 2)
    assert node_of(changes, "n1").gpu_milli_held == 0


def test_a_node_is_usable_when_released_and_answering() -> None:
    story = Story()
    story.add("node", "n1", "joined", NodeJoined(cpu_milli=1, memory_mib=1))
    core, changes = project(story)
    assert not node_of(changes, "n1").usable
    story.node("n2")
    story.add("node", "n2", "lost", NodeLost(reason="no answer"))
    for fact in story.facts[1:]:
        core.apply(fact)
    lost = node_of(core.take(facts_after=0), "n2")
    assert (lost.usable, lost.lost, lost.reason) == (False, True, "no answer")
    core.apply(story.add("node", "n2", "returned", NodeReturned()))
    assert not node_of(core.take(facts_after=0), "n2").usable, "the scheduler has not released it again"
    core.apply(story.add("node", "n2", "released", Released()))
    assert node_of(core.take(facts_after=0), "n2").usable


def test_the_shapes_of_nodes_are_told_once_each_and_only_when_they_change() -> None:
    story = Story()
    story.node("n1")
    story.node("n2")
    core, changes = project(story)
    assert changes.shapes is not None
    assert json.loads(changes.shapes) == [["H100", 8, 8000, 8000, []]]
    before = len(story.facts)
    story.node("n3")
    for fact in story.facts[before:]:
        core.apply(fact)
    assert core.take(facts_after=0).shapes is None


def test_facts_are_shown_with_their_bodies() -> None:
    story, job = Story(), a_job(1)
    story.routed(job)
    _, changes = project(story)
    shown = FactView.model_validate_json(changes.facts[0].body)
    assert (shown.name, shown.stream, shown.seq, shown.subject_id) == ("routed", "LOG_atlas", 1, job.id)
    assert json.loads(shown.body)["job"]["spec"]["name"] == "job-1"


def test_what_was_taken_is_not_given_again() -> None:
    story, job = Story(), a_job(1)
    story.routed(job)
    core, _ = project(story)
    assert not core.take(facts_after=1)


def test_a_checkpoint_is_projected_like_the_facts_it_stands_for() -> None:
    job = a_job(1)
    slot = Slot(group=0, replica=0, node="n1", devices=(0, 1), gpu_milli=1000)
    states = (
        ("job", job.id, JobState(job=job, phase=Phase.RUNNING, queue="blue", slots=(slot,), placed_at=4, running_at=5)),
        ("node", "n1", GrantState(released=True)),
        ("node", "n1", NodeState(description=NodeJoined(cpu_milli=8000, memory_mib=8000, gpu_uuids=("a", "b")))),
    )
    core = ProjectorCore("atlas")
    for kind, ident, payload in states:
        core.apply(a_fact("scheduler", kind, ident, "state-recorded", payload, seq=9))
    changes = core.take(facts_after=0)
    assert (job_of(changes).phase, job_of(changes).nodes) == (Phase.RUNNING, ("n1",))
    assert (node_of(changes, "n1").usable, node_of(changes, "n1").gpu_milli_held) == (True, 2000)
    assert changes.facts == [], "state facts are nothing that happened"


def test_a_fact_that_fits_no_job_is_counted() -> None:
    story = Story()
    story.running(a_job(1))
    core, changes = project(story)
    assert core.anomalies == 1
    assert changes.jobs == []


def test_memory_of_ended_jobs_and_of_facts_is_bounded() -> None:
    core = ProjectorCore("atlas", ended_kept=3, ring_bytes=4_000)
    story = Story()
    for number in range(10):
        story.routed(a_job(number))
        story.ended(a_job(number))
    for fact in story.facts:
        core.apply(fact)
    changes = core.take_all(rows_after=0)
    assert [JobView.model_validate_json(change.body).name for change in changes.jobs] == ["job-7", "job-8", "job-9"]
    assert sum(len(fact.body) for fact in changes.facts) <= 4_000
    assert changes.facts[-1].seq == 20
    assert core.facts_forgotten_seq == changes.facts[0].seq - 1


def test_a_composable_node_shows_the_devices_that_are_there_and_its_group() -> None:
    story = Story()
    described = NodeJoined(
        cpu_milli=8000, memory_mib=8000, gpu_model="H100", gpu_uuids=("GPU-a", "empty-1", "GPU-c"), absent=(1,),
        group="elastic",
    )  # fmt: skip
    story.add("node", "n1", "joined", described)
    _, changes = project(story)
    node = node_of(changes, "n1")
    assert (node.gpus, node.group) == (2, "elastic")
    assert json.loads(changes.shapes or b"") == [["H100", 2, 8000, 8000, []]]


def withholding(*names: str) -> NodeView:
    """A node after `withheld A`, `withdrawn B`, `withdrawn-early A` and `released`."""
    story = Story()
    story.node("n1")
    for name in names:
        said, _, request = name.partition(" ")
        match said:
            case "withheld":
                story.add("node", "n1", "withheld", Withheld(request_id=request))
            case "released":
                story.add("node", "n1", "released", Released())
            case _:
                after = said == "withdrawn"
                payload = WithholdWithdrawn(request_id=request, after_withheld=after)
                story.add("node", "n1", "withhold-withdrawn", payload)
    _, changes = project(story)
    return node_of(changes, "n1")


@pytest.mark.parametrize(
    ("names", "usable", "reason"),
    [
        (("withheld s1",), False, "withheld for s1"),
        (("withheld s1", "withheld u2"), False, "withheld for s1, u2"),
        (("withheld s1", "withheld u2", "withdrawn s1"), False, "withheld for u2"),
        (("withheld s1", "early s1"), False, "withheld for s1"),
        (("withheld s1", "withdrawn s1"), False, ""),
        (("withheld s1", "withdrawn s1", "released"), True, ""),
        (("withdrawn s9",), True, ""),
    ],
)
def test_a_node_says_for_whom_it_is_withheld_until_they_give_it_back(
    names: tuple[str, ...], usable: bool, reason: str
) -> None:
    node = withholding(*names)
    assert (node.usable, node.reason) == (usable, reason)


REQUESTS = (
    DrainRequest(request_id="s1", answered=True),
    DrainRequest(request_id="u2"),
)


@pytest.mark.parametrize(
    ("grant", "usable", "reason"),
    [
        (GrantState(released=False, withhold_requests=("s1", "u2"), wishes=REQUESTS), False, "withheld for s1"),
        (GrantState(released=True, withhold_requests=("u2",), wishes=REQUESTS[1:]), True, ""),
        (GrantState(released=False, withhold_requests=("s1",), withheld=True), False, "withheld for s1"),
        (GrantState(released=False), False, ""),
    ],
)
def test_a_checkpoint_tells_for_whom_a_node_is_withheld(grant: GrantState, usable: bool, reason: str) -> None:
    story = Story()
    story.node("n1")
    story.add("node", "n1", "state-recorded", grant)
    _, changes = project(story)
    node = node_of(changes, "n1")
    assert (node.usable, node.reason) == (usable, reason)
