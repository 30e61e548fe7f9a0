"""What follows an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.notifier.delivery import Next, Policy, Step, backoff_s, next_step
from muster.notifier.limits import JITTER, RETRY_AFTER_S_MAX
from muster.notifier.sender import Answer, retry_after_s

POLICY = Policy(attempts_max=12, backoff_s=5.0, backoff_s_max=900.0)


def after(status: int, *, attempt: int = 1, asked_s: float | None = None) -> Next:
    return next_step(status, attempt=attempt, message_id="e", policy=POLICY, retry_after_s=asked_s)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success_is_the_end(status: int) -> None:
    assert after(status).step is Step.DONE


@pytest.mark.parametrize("status", [0, 302, 401, 403, 404, 408, 429, 500, 503])
def test_what_may_pass_is_asked_until_the_attempts_are_used_up(status: int) -> None:
    assert after(status, attempt=11).step is Step.RETRY
    assert after(status, attempt=12).step is Step.BURY


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_message_that_is_wrong_in_itself_is_asked_three_times(status: int) -> None:
    assert [after(status, attempt=attempt).step for attempt in (1, 2, 3)] == [Step.RETRY, Step.RETRY, Step.BURY]


def test_a_receiver_that_is_gone_is_left_alone() -> None:
    assert after(410).step is Step.STOP


def test_a_receiver_may_ask_for_more_patience_but_not_for_ever() -> None:
    assert after(429, asked_s=120).delay_s == 120
    assert after(503, asked_s=10**9).delay_s == RETRY_AFTER_S_MAX
    assert after(503, attempt=9, asked_s=1).delay_s > 600, "less patience than the backoff has is not granted"


@given(st.integers(1, 100), st.text(max_size=30))
def test_pauses_double_up_to_the_greatest_give_or_take_the_jitter(attempt: int, message_id: str) -> None:
    pause_s = backoff_s(attempt, message_id=message_id, policy=POLICY)
    plain_s = min(POLICY.backoff_s_max, POLICY.backoff_s * 2 ** (attempt - 1))
    assert plain_s * (1 - JITTER) <= pause_s <= plain_s * (1 + JITTER)
    assert pause_s == backoff_s(attempt, message_id=message_id, policy=POLICY)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("120", 120.0), ("Thu, 01 Jan 1970 00:02:00 GMT", 60.0), ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0), ("", None),
     ("soon", None), ("-5", None), ("Thu, 01 Jan 1970 00:00:00 +99999999999999999", None),
     ("Thu, 01 Jan 1970 99999999999999999999:00:00 GMT", None), ("Fri, 31 Dec 999999999999 00:00:00 GMT", None)],
)  # fmt: skip
def test_retry_after_is_a_number_of_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after_s(value, now_s=60) == seconds


def test_a_redirect_says_what_to_do() -> None:
    assert Answer(302).summary == "302: redirects are not followed; set the url to where the receiver is"
