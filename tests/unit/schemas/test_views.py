"""Views that are rows of the read model: read, written and copied as wire models are, and brought to a job's state."""

import dataclasses
import json

import pytest

from kit.projector import a_job
from muster.schemas.facts.job import JobState
from muster.schemas.facts.operations import NodeExcluded
from muster.schemas.job import Phase, Slot
from muster.schemas.queries import QueuesAnswer
from muster.schemas.record import Record
from muster.schemas.views import (
    QUEUE_NOT_STORED,
    RESERVATION_NOT_STORED,
    SAME_AS_STATE,
    JobView,
    QueueView,
    ReservationView,
    follow_state,
    job_view,
)

JOB = a_job(1)
SLOTS = (Slot(node="n1", group=0, replica=0), Slot(node="n1", group=0, replica=1), Slot(node="n2", group=0, replica=2))


def types_of(record: type[Record]) -> dict[str, object]:
    return {field.name: field.type for field in dataclasses.fields(record)}


def followed(state: JobState) -> JobView:
    row = job_view(JOB, cluster="atlas")
    follow_state(row, state)
    return row


@pytest.mark.parametrize("name", SAME_AS_STATE)
def test_what_is_taken_from_the_state_as_it_is_has_the_same_type_there(name: str) -> None:
    assert types_of(JobView)[name] == types_of(JobState)[name]


def test_a_row_follows_the_state_and_keeps_what_is_not_in_it() -> None:
    row = followed(JobState(job=JOB, phase=Phase.RUNNING, attempt=3, slots=SLOTS, ran_s=1.5))
    assert (row.phase, row.attempt, row.slots, row.ran_s) == (Phase.RUNNING, 3, SLOTS, 1.5)
    assert row.nodes == ("n1", "n2")
    assert (row.cluster, row.name) == ("atlas", JOB.spec.name)


def test_what_a_state_does_not_say_is_as_the_job_says() -> None:
    row = followed(JobState(job=JOB, phase=Phase.QUEUED, retries_used=2))
    assert (row.queue, row.priority, row.failures_in_row) == (JOB.spec.queue_name, JOB.spec.priority, 2)


def test_what_a_state_says_in_another_form_is_told_in_words_of_the_row() -> None:
    gone = NodeExcluded(node="n9", because="its fault")
    row = followed(JobState(job=JOB, phase=Phase.QUEUED, queue="lab", priority=90, excluded=(gone,), failures_in_row=0))
    assert (row.queue, row.priority, row.excluded, row.held) == ("lab", 90, ("n9",), False)


@pytest.mark.parametrize(
    ("view", "left_out"), [(QueueView, QUEUE_NOT_STORED), (ReservationView, RESERVATION_NOT_STORED)]
)
def test_what_is_not_stored_is_a_field_with_a_default(view: type[Record], left_out: frozenset[str]) -> None:
    optional = {field.name for field in dataclasses.fields(view) if field.default is not dataclasses.MISSING}
    assert left_out <= optional


def test_a_stored_queue_is_read_back_without_its_shares() -> None:
    queue = QueueView(name="lab", cluster="atlas", share=0.5, used_share=0.25)
    stored = queue.encoded(exclude=QUEUE_NOT_STORED)
    assert QUEUE_NOT_STORED.isdisjoint(json.loads(stored))
    assert QueueView.model_validate_json(stored) == queue.model_copy(update={"share": 0.0, "used_share": 0.0})


def test_an_answer_holds_views_as_they_are() -> None:
    answer = QueuesAnswer(queues=(QueueView(name="lab", cluster="atlas", held={"gpu": 2}),))
    assert QueuesAnswer.model_validate_json(answer.model_dump_json()) == answer


def test_a_view_ignores_what_a_newer_writer_added() -> None:
    row = job_view(JOB)
    known = json.loads(row.encoded())
    assert JobView.model_validate_json(json.dumps({**known, "color": "red"})) == row
