"""Reports of checks: small enough for a termination message, and never more than what was found."""

import json

from hypothesis import given
from hypothesis import strategies as st

from muster.checks.report import MESSAGE_BYTES_MAX, dump, load
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult

ORDERS = tuple(CheckOrder(check=f"check-{number}") for number in range(6))


def results(detail: str = "") -> list[CheckResult]:
    return [
        CheckResult(
            node="n", check=order.check, outcome=outcome, value=1.5, least=2.0, unit="GB/s", device="GPU-1", code="X",
            detail=detail, took_s=3.0,
        )
        for order, outcome in zip(ORDERS, [*CheckOutcome, *CheckOutcome], strict=True)
    ]  # fmt: skip


def test_what_was_found_comes_back_as_it_was() -> None:
    assert list(load(dump(results("words")), ORDERS, node="n")) == results("words")


@given(st.text(max_size=1024))
def test_long_words_are_shortened_until_the_report_fits_and_outcomes_stay(detail: str) -> None:
    text = dump(results(detail))
    assert len(text.encode()) <= MESSAGE_BYTES_MAX
    assert [one.outcome for one in load(text, ORDERS, node="n")] == [one.outcome for one in results()]


def test_what_was_not_told_could_not_run() -> None:
    found = list(load(dump(results()[:1]), ORDERS[:2], node="n"))
    assert [(one.outcome, one.detail) for one in found] == [
        (CheckOutcome.PASS, ""), (CheckOutcome.CANNOT_RUN, "the check was not reported"),
    ]  # fmt: skip


def test_what_is_no_report_could_not_run() -> None:
    for text in ("", "Killed", "[]", '{"r": 7}', "null"):
        (found,) = load(text, ORDERS[:1], node="n")
        assert found.outcome is CheckOutcome.CANNOT_RUN


def test_an_outcome_that_nobody_knows_is_no_pass() -> None:
    text = json.dumps({"v": 1, "r": [{"c": "check-0", "o": "splendid"}]})
    (found,) = load(text, ORDERS[:1], node="n")
    assert found.outcome is CheckOutcome.CANNOT_RUN


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner)
       | st.dictionaries(st.sampled_from("vrcomlugkds"), inner)))  # fmt: skip
def test_nonsense_is_read_without_a_word(body: object) -> None:
    assert len(list(load(json.dumps(body), ORDERS, node="n"))) == len(ORDERS)
