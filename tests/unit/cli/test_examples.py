"""The examples are what a new user sees first: each must be accepted."""

from pathlib import Path

import pytest

from muster.cli.examples_dir import job_files, queue_file
from muster.cli.jobfile import load_jobs, load_queues


def test_there_are_a_handful_of_examples() -> None:
    assert len(job_files()) >= 5


@pytest.mark.parametrize("path", job_files(), ids=lambda path: path.name)
def test_an_example_is_a_good_job_of_a_team_that_has_a_queue(path: Path) -> None:
    queues = queue_file()
    assert queues is not None
    known = {queue.name for queue in load_queues(queues)}
    assert {job.queue_name for job in load_jobs(path)} <= known


def test_quotas_stand_below_their_limits() -> None:
    path = queue_file()
    assert path is not None
    for queue in load_queues(path):
        if queue.gpu_milli_limit is not None:
            assert queue.gpu_milli_quota is not None
            assert queue.gpu_milli_quota <= queue.gpu_milli_limit
