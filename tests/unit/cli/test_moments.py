"""Moments and lengths of time, as written and as read."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.errors import CliError
from muster.cli.moments import distance, length_s, long, moment_ns, when
from muster.core.instant import NS_PER_S

NOW = round(datetime(2026, 11, 21, 14, 0, tzinfo=UTC).timestamp()) * NS_PER_S
EAST = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200), ("1h30m", 5400), ("90min", 5400), ("45s", 45), ("1.5d", 129_600), ("1w 1d", 691_200)],
)
def test_lengths_of_time_are_read(text: str, seconds: float) -> None:
    assert length_s(text, option="--for") == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2 hours", "-1h", "1h x"])
def test_what_is_no_length_of_time_names_its_option(text: str) -> None:
    with pytest.raises(CliError, match="--for: "):
        length_s(text, option="--for")


def test_a_moment_is_read_in_its_own_zone_or_in_the_given_one() -> None:
    assert moment_ns("2026-11-21T14:00Z", option="--starts") == NOW
    assert moment_ns("2026-11-21T15:00", option="--starts", zone=EAST) == NOW
    assert moment_ns("2026-11-21T16:00+02:00", option="--starts", zone=EAST) == NOW


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01T00:00", "10:00", "1969-01-01T00:00Z"])
def test_what_is_no_moment_names_its_option(text: str) -> None:
    with pytest.raises(CliError, match="--starts: "):
        moment_ns(text, option="--starts", zone=UTC)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (720, "15:12 (in 12 min)"),
        (40, "15:00 (in 40 s)"),
        (0, "15:00 (now)"),
        (-3 * 3600 - 1200, "11:40 (3 h 20 min ago)"),
        (86_400, "Sun 22 Nov 15:00 (in 1 d)"),
        (60 * 86_400, "2027-01-20 15:00 (in 60 d)"),
    ],
)
def test_a_moment_is_told_by_the_clock_and_by_its_distance(seconds: int, told: str) -> None:
    assert when(NOW + seconds * NS_PER_S, now_ns=NOW, zone=EAST) == told


@given(st.integers(0, 10**8))
def test_a_length_that_is_told_is_never_longer_than_it_is_and_can_be_read(seconds: int) -> None:
    read = length_s(long(seconds), option="--for")
    assert read <= seconds < read + 3600


def test_what_is_less_than_half_a_second_away_is_now() -> None:
    assert distance(NOW + NS_PER_S // 3, now_ns=NOW) == "now"
