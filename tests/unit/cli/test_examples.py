"""The examples are what a new user sees first: each must be accepted."""

from pathlib import Path

import pytest

from muster.cli.examples_dir import job_files, queue_file, queue_files
from muster.cli.jobfile import load_jobs
from muster.cli.queue_tree import load_queues


def test_there_are_a_handful_of_examples() -> None:
    assert len(job_files()) >= 5


@pytest.mark.parametrize("path", job_files(), ids=lambda path: path.name)
def test_an_example_is_a_good_job_of_a_team_that_has_a_queue(path: Path) -> None:
    queues = queue_file()
    assert queues is not None
    known = {queue.name for queue in load_queues(queues)}
    assert {job.queue_name for job in load_jobs(path)} <= known


@pytest.mark.parametrize("path", queue_files(), ids=lambda path: path.name)
def test_example_queues_are_one_tree(path: Path) -> None:
    queues = load_queues(path)
    assert [queue.name for queue in queues if queue.parent is None] == ["org"]
    assert {queue.parent for queue in queues[1:]} == {"org"}


def test_the_tree_to_begin_with_fills_a_fleet_of_any_size() -> None:
    queues = queue_file()
    assert queues is not None
    assert not any(queue.quota or queue.borrowing_limit for queue in load_queues(queues))


def test_there_is_a_tree_to_begin_with_and_one_to_learn_from() -> None:
    assert [path.name for path in queue_files()] == ["queues.yaml", "three-teams.yaml"]
    assert queue_file() == queue_files()[0]
