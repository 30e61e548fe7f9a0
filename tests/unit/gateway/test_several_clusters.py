"""Several clusters behind one door: whose answer counts, and which row of a job is shown."""

from typing import cast

import pytest

from kit.http.gateway import FakeLeaders, FakeScheduler, FakeView
from kit.projector import a_job
from muster.gateway.cells import Cell, Schedulers, cell_named
from muster.gateway.ports import Composer, Guard, Leaders, Scaler, UnreachableError
from muster.gateway.problems import ProblemError
from muster.gateway.redis_view import assigned_row, cluster_in
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.members import AssignmentView
from muster.schemas.queries import QueueCheckAnswer
from muster.schemas.views import JobView, NodeView, job_view


def row(cluster: str, phase: Phase, *, queued_at: int = 0) -> bytes:
    view = job_view(a_job(1)).model_copy(update={"cluster": cluster, "phase": phase, "queued_at": queued_at})
    return view.model_dump_json().encode()


def assigned_to(cluster: str) -> FakeLeaders:
    """The federation, which has given every job to that cluster."""
    leaders = FakeLeaders()
    leaders.answers["federation", "assignment"] = AssignmentView(known=bool(cluster), cluster=cluster)
    return leaders


def two(*, assigned: str = "") -> tuple[Schedulers, FakeScheduler, FakeScheduler]:
    """Schedulers of two clusters. assigned: which of them has every job."""
    east, west = FakeScheduler(FakeView()), FakeScheduler(FakeView())
    east.node_rows, west.node_rows = [NodeView(name="e1", cluster="east")], [NodeView(name="w1", cluster="west")]
    return Schedulers({"east": east, "west": west}, leaders=assigned_to(assigned)), east, west


def shown(*rows: bytes | None) -> bytes | None:
    """The row that is shown. rows: of east, of west, of the federation."""
    return assigned_row(("east", "west"), rows, is_shared=True).row


def known(cluster: str, phase: Phase) -> JobView:
    return JobView.model_validate_json(row(cluster, phase))


async def test_lists_are_put_together() -> None:
    both, _, _ = two()
    assert [NodeView.model_validate_json(one).name for one in await both.nodes()] == ["e1", "w1"]


async def test_only_the_cluster_that_has_a_job_answers_for_it() -> None:
    """Another one could say that the job is of a team of its choice, and who may cancel it is judged by that."""
    both, east, west = two(assigned="west")
    made_up, job = known("east", Phase.RUNNING), known("west", Phase.QUEUED)
    east.known[job.id], west.known[job.id] = made_up, job
    assert await both.job(job.id) == job
    assert (await both.why(job.id)).job == job


@pytest.mark.parametrize("assigned", ["", "north"])
async def test_nobody_answers_for_a_job_that_none_of_these_clusters_has(assigned: str) -> None:
    both, east, _ = two(assigned=assigned)
    made_up = known("east", Phase.RUNNING)
    east.known[made_up.id] = made_up
    assert await both.job(made_up.id) is None
    assert (await both.why(made_up.id)).job is None


async def test_without_the_federation_no_cluster_answers_for_a_job() -> None:
    east = FakeScheduler(FakeView())
    made_up = known("east", Phase.RUNNING)
    east.known[made_up.id] = made_up
    with pytest.raises(UnreachableError):
        await Schedulers({"east": east}, leaders=FakeLeaders()).job(made_up.id)


async def test_a_cluster_that_does_not_answer_hides_nothing_of_the_others() -> None:
    both, east, _ = two()
    east.is_down = True
    assert [NodeView.model_validate_json(one).name for one in await both.nodes()] == ["w1"]


async def test_nobody_answers_where_no_cluster_does() -> None:
    both, east, west = two()
    east.is_down = west.is_down = True
    with pytest.raises(UnreachableError):
        await both.nodes()


async def test_one_cluster_that_refuses_a_queue_is_enough() -> None:
    both, _, west = two()
    west.check = QueueCheckAnswer(field="weight", reason="too much")
    assert (await both.queue_check(QueueSpec(name="blue"))).field == "weight"


def test_the_federation_says_which_clusters_row_is_shown() -> None:
    stale, live = row("east", Phase.QUEUED, queued_at=5), row("west", Phase.RUNNING, queued_at=9)
    assert shown(stale, live, row("west", Phase.SUBMITTED)) == live
    assert shown(stale, live, row("east", Phase.SUBMITTED)) == stale
    assert shown(None, None, None) is None


def test_a_row_that_a_cluster_makes_up_of_anothers_job_is_not_shown() -> None:
    """Who may cancel a job, or read what it prints, is judged by the team of its row."""
    made_up = row("west", Phase.RUNNING, queued_at=99)
    for where in ("east", ""):
        for phase in (Phase.SUBMITTED, Phase.SUCCEEDED):
            of_fed = row(where, phase)
            assert shown(None, made_up, of_fed) == of_fed
    lies = row("east", Phase.RUNNING, queued_at=99)
    of_fed = row("east", Phase.SUBMITTED)
    assert shown(None, lies, of_fed) == of_fed, "the log that it is from counts, not its words"


def test_a_job_that_the_federation_has_forgotten_is_shown_if_one_cluster_alone_tells_of_it() -> None:
    ended, made_up = row("east", Phase.SUCCEEDED), row("west", Phase.RUNNING, queued_at=99)
    assert shown(ended, None, None) == ended
    assert shown(ended, made_up, None) is None


def test_of_one_cluster_among_several_the_federation_is_believed_too() -> None:
    made_up, of_fed = row("west", Phase.RUNNING), row("east", Phase.SUBMITTED)
    assert assigned_row(("west",), (made_up, of_fed), is_shared=True).row == of_fed


def test_of_a_single_cluster_its_row_is_shown_whatever_the_federation_says() -> None:
    running = row("atlas", Phase.RUNNING)
    assert assigned_row(("atlas",), (running, row("", Phase.SUBMITTED)), is_shared=False).row == running


def test_a_name_that_looks_like_a_cluster_is_none() -> None:
    named = JobView.model_validate_json(row("east", Phase.SUBMITTED)).model_copy(update={"name": 'x","cluster":"west"'})
    assert cluster_in(named.model_dump_json().encode()) == "east"


def test_a_request_may_name_its_cluster_and_no_unknown_one() -> None:
    view, nobody = FakeView(), object()
    east = Cell(
        "east",
        view,
        FakeScheduler(view),
        cast("Composer", nobody),
        cast("Scaler", nobody),
        cast("Guard", nobody),
        cast("Leaders", nobody),
    )
    assert cell_named({"east": east}, "east") is east
    with pytest.raises(ProblemError) as refusal:
        cell_named({"east": east}, "north")
    assert refusal.value.problem.status == 404
