"""Several clusters behind one door: whose answer counts, and which row of a job is shown."""

from typing import cast

import pytest

from gateway_fakes import FakeScheduler, FakeView
from muster.gateway.cells import Cell, cell_named
from muster.gateway.ports import Composer, Guard, Leaders, Scaler, UnreachableError
from muster.gateway.problems import ProblemError
from muster.gateway.redis_view import cluster_in, newest_row
from muster.gateway.schedulers import Schedulers
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.queries import QueueCheckAnswer
from muster.schemas.views import JobView, NodeView, job_view
from projector_story import a_job


def row(cluster: str, phase: Phase, *, queued_at: int = 0) -> bytes:
    view = job_view(a_job(1)).model_copy(update={"cluster": cluster, "phase": phase, "queued_at": queued_at})
    return view.model_dump_json().encode()


def two() -> tuple[Schedulers, FakeScheduler, FakeScheduler]:
    east, west = FakeScheduler(FakeView()), FakeScheduler(FakeView())
    east.node_rows, west.node_rows = [NodeView(name="e1", cluster="east")], [NodeView(name="w1", cluster="west")]
    return Schedulers({"east": east, "west": west}), east, west


def known(cluster: str, phase: Phase) -> JobView:
    return JobView.model_validate_json(row(cluster, phase))


async def test_who_has_the_job_answers_for_it_and_lists_are_put_together() -> None:
    both, _, west = two()
    job = known("west", Phase.RUNNING)
    west.known[job.id] = job
    assert await both.job(job.id) == job
    assert [NodeView.model_validate_json(one).name for one in await both.nodes()] == ["e1", "w1"]


async def test_of_a_job_that_moved_the_cluster_where_it_lives_answers() -> None:
    both, east, west = two()
    ended, lives = known("east", Phase.FAILED), known("west", Phase.QUEUED)
    east.known[ended.id], west.known[ended.id] = ended, lives
    assert await both.job(ended.id) == lives


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


def test_the_federation_says_which_clusters_row_is_shown_and_afterwards_the_later_one_is() -> None:
    both = ("east", "west")
    stale, live = row("east", Phase.QUEUED, queued_at=5), row("west", Phase.RUNNING, queued_at=9)
    assert newest_row(both, (stale, live, row("west", Phase.SUBMITTED))) == live
    assert newest_row(both, (stale, live, row("east", Phase.SUBMITTED))) == stale
    assert newest_row(both, (stale, live, None)) == live
    assert newest_row(both, (None, live, None)) == live
    assert newest_row(both, (None, None, None)) is None


def test_a_row_that_a_cluster_makes_up_of_anothers_live_job_is_not_shown() -> None:
    """Who may cancel a job, or read what it prints, is judged by the team of its row."""
    made_up = row("west", Phase.RUNNING, queued_at=99)
    for where in ("east", ""):
        of_fed = row(where, Phase.SUBMITTED)
        assert newest_row(("east", "west"), (None, made_up, of_fed)) == of_fed
    lies = row("east", Phase.RUNNING, queued_at=99)
    of_fed = row("east", Phase.SUBMITTED)
    assert newest_row(("east", "west"), (None, lies, of_fed)) == of_fed, "the log that it is from counts, not its words"


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
