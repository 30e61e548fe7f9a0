"""How drafts become batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.bus.batches import (
    BATCH_BYTES_MAX,
    BATCH_MESSAGES_MAX,
    HEADERS_BYTES_MAX,
    SUBJECT_BYTES_MAX,
    Writer,
    first_blocks,
    own_span,
    split,
)
from muster.bus.ports import FactRefusedError, TogetherTooLargeError
from muster.core.fact import Draft
from muster.schemas import ids
from muster.schemas.facts.job import JobCheckpointed
from muster.schemas.subjects import cluster_log

ROOM = BATCH_MESSAGES_MAX - 1


def drafts(*keys: str) -> list[Draft]:
    return [Draft("job", "J", "checkpointed", JobCheckpointed(attempt=1), together=key) for key in keys]


RUNS = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c", "d"]), st.integers(1, 200)), max_size=20)


@given(RUNS)
def test_batches_cover_all_drafts_in_order_and_never_split_a_key(runs: list[tuple[str, int]]) -> None:
    keys = [key for key, length in runs for _ in range(length)]
    try:
        batches = split(drafts(*keys))
    except TogetherTooLargeError:
        spans = [(keys.index(key), len(keys) - keys[::-1].index(key)) for key in set(keys) - {""}]
        assert max(end for _, end in spans) - min(start for start, _ in spans) > ROOM
        return

    assert [index for batch in batches for index in batch] == list(range(len(keys)))
    assert all(len(batch) <= ROOM for batch in batches)
    for key in set(keys) - {""}:
        assert sum(key in keys[batch.start : batch.stop] for batch in batches) == 1


def test_batches_are_as_full_as_may_be() -> None:
    assert split(drafts(*[""] * (ROOM + 1))) == [range(ROOM), range(ROOM, ROOM + 1)]


def test_a_key_moves_whole_into_the_next_batch() -> None:
    assert split(drafts(*[""] * (ROOM - 1), "gang", "gang")) == [range(ROOM - 1), range(ROOM - 1, ROOM + 1)]


def test_what_stands_between_two_of_a_key_stays_between_them() -> None:
    keys = ["gang", *[""] * (ROOM - 1), "gang"]

    with pytest.raises(TogetherTooLargeError, match="'gang'"):
        split(drafts(*keys))


def test_no_drafts_are_one_empty_batch() -> None:
    assert split([]) == [range(0)]


def test_bytes_count_too() -> None:
    third = BATCH_BYTES_MAX // 3 + 1

    assert split(drafts("", "", ""), [third] * 3) == [range(2), range(2, 3)]
    with pytest.raises(TogetherTooLargeError):
        split(drafts("gang", "gang", "gang"), [third] * 3)


def test_a_fact_has_its_own_span_in_its_jobs_trace() -> None:
    trace = ids.traceparent("ab" * 16, "cd" * 8)

    assert own_span(trace, "fact") == ids.traceparent("ab" * 16, ids.span_id("fact"))
    assert not own_span("", "fact")
    assert not own_span("no traceparent", "fact")


def test_the_first_blocks_are_at_least_one_and_split_no_group() -> None:
    some = drafts("g", "g", "", "")
    assert [len(first_blocks(some, most)) for most in (1, 2, 3, 4, 9)] == [2, 2, 3, 4, 4]
    assert first_blocks([], 1) == []


@pytest.mark.parametrize(
    "refused",
    [
        Draft("job", "J" * SUBJECT_BYTES_MAX, "checkpointed", JobCheckpointed(attempt=1)),
        Draft("job", "J", "checkpointed", JobCheckpointed(attempt=1), causes=("c" * HEADERS_BYTES_MAX, "c")),
        Draft("job", "J", "checkpointed", JobCheckpointed(attempt=1), cluster="east.job"),
    ],
    ids=["long-subject", "long-causes", "no-token"],
)
def test_what_would_end_the_connection_is_refused_before_it_is_sent(refused: Draft) -> None:
    with pytest.raises(FactRefusedError, match=r"bytes|token"):
        Writer(cluster_log("atlas"), "agent").write(refused, "id")
