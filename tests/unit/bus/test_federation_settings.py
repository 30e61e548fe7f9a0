"""What settings of a federation are refused, because a job might run twice or every delay would end some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from muster.bus.federation_settings import (
    CLOCK_RATE_ERROR_MAX,
    SKEW_S_MAX,
    FederationSettings,
    margin_least_s,
)

TWO = [{"name": "east"}, {"name": "west", "lost_after_s": 600}]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"lost_after_s": 60}, "must exceed margin_s and three heartbeats"),
        ({"clusters": TWO, "margin_s": 700}, "lost_after_s 600 of west"),
        ({"lost_after_s": 100, "margin_s": 2}, "a job might run in two clusters"),
        ({"clusters": [TWO[0], TWO[0]]}, "names must be distinct"),
        (
            {"clusters": TWO, "policy": {"rules": [{"name": "all", "clusters": [{"cluster": "moon"}]}]}},
            "no cluster moon; there are east, west",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(said: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FederationSettings.model_validate(said)


def test_each_cluster_may_have_its_own_moment() -> None:
    settings = FederationSettings.model_validate({"clusters": TWO, "lost_after_s": 300})
    assert settings.lost_after() == {"east": 300.0, "west": 600.0}
    assert FederationSettings(lost_after_s=300).lost_after() == {"": 300.0}


@given(
    lost_after_s=st.floats(30, 10_000),
    heartbeat_s=st.floats(0.1, 30),
    fast=st.floats(-CLOCK_RATE_ERROR_MAX, CLOCK_RATE_ERROR_MAX),
    slow=st.floats(-CLOCK_RATE_ERROR_MAX, CLOCK_RATE_ERROR_MAX),
)
def test_the_least_margin_keeps_the_end_before_the_start_whatever_the_clocks_do(
    lost_after_s: float, heartbeat_s: float, fast: float, slow: float
) -> None:
    margin_s = margin_least_s(lost_after_s, heartbeat_s=heartbeat_s)
    ends_s = (lost_after_s - margin_s / 2) / (1 + slow) + heartbeat_s
    begins_s = (lost_after_s + margin_s) / (1 + fast) - SKEW_S_MAX
    assert ends_s <= begins_s
