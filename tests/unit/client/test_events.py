"""Events come out of an answer whole, however its bytes were cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.client import watch
from muster.client.watch import Event, EventParser, EventTooLongError

TEXT = (
    b"retry: 1\n\n: nothing new\n\nid: FED:1\nevent: fact\ndata: {\ndata:  1}\nnew-field: x\n\ndata: alone\n\nid: cut"
)
WHOLE = [Event("FED:1", "fact", b"{\n 1}"), Event("", "message", b"alone")]


@given(st.lists(st.integers(0, len(TEXT))))
def test_events_do_not_depend_on_where_the_bytes_were_cut(cuts: list[int]) -> None:
    parser, edges = EventParser(), [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[begin:end] for begin, end in itertools.pairwise(edges)]
    assert [event for piece in pieces for event in parser.feed(piece)] == WHOLE


def test_an_answer_without_ends_of_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVENT_BYTES_MAX", 100)
    parser = EventParser()
    assert parser.feed(b"data: " + b"x" * 94) == []
    with pytest.raises(EventTooLongError, match="100 bytes"):
        parser.feed(b"x")
