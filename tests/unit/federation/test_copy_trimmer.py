"""Up to where a centre's copy of a cluster's log may be forgotten."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core import Instant
from muster.federation.copier import Standing, bound, newest_before

STANDING = Standing(first=1, checkpoint=100, told=None, filled=0.1, reported=True)


@pytest.mark.parametrize(
    ("standing", "up_to"),
    [
        (STANDING, 100),
        (replace(STANDING, told=40), 40),
        (replace(STANDING, told=140), 100),
        (replace(STANDING, checkpoint=0), 0),
        (replace(STANDING, reported=False), 0),
        (replace(STANDING, first=101), 0),
        (replace(STANDING, told=40, filled=0.9), 100),
        (replace(STANDING, reported=False, filled=0.9), 0),
    ],
)
def test_checkpoints_reports_and_webhooks_bound_it_and_a_full_copy_waits_for_no_webhook(
    standing: Standing, up_to: int
) -> None:
    assert bound(standing) == up_to


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=40).map(sorted),
    first=st.integers(1, 1_000),
    before=st.integers(0, 60),
)
async def test_age_is_found_by_halving(times: list[int], first: int, before: int) -> None:
    async def time_of(seq: int) -> Instant:
        return Instant(times[seq - first])

    last = first + len(times) - 1
    found = await newest_before(time_of, first=first, last=last, before=Instant(before))
    older = [seq for seq, time in enumerate(times, start=first) if time < before]
    assert found == max(older, default=0)


async def test_where_nothing_is_left_nothing_is_asked() -> None:
    async def time_of(seq: int) -> Instant:
        raise AssertionError(seq)

    assert await newest_before(time_of, first=11, last=10, before=Instant(5)) == 0
