"""What is read out of a query: metrics, the labels that they must have, and the values that are asked for."""

import pytest

from kit.observe.promql import selectors


def told(query: str) -> list[tuple[str, set[str], list[tuple[str, str, str]]]]:
    return [(one.metric, one.wanted, one.matchers) for one in selectors(query)]


def test_functions_numbers_and_ranges_are_no_metrics() -> None:
    assert told("histogram_quantile(0.99, rate(x_bucket[5m])) > 1.5e9") == [("x_bucket", set(), [])]
    assert told("avg_over_time((sum(a) / sum(b))[1d:5m]) < +Inf") == [("a", set(), []), ("b", set(), [])]


def test_matchers_belong_to_their_metric() -> None:
    query = 'a{job="x",status=~"5.."} / b'
    assert told(query) == [("a", set(), [("job", "=", "x"), ("status", "=~", "5..")]), ("b", set(), [])]


def test_what_is_grouped_by_binds_the_body_alone() -> None:
    query = "sum by (le, team) (rate(a[1m])) + sum by (queue) (b) + c"
    assert told(query) == [("a", {"le", "team"}, []), ("b", {"queue"}, []), ("c", set(), [])]


def test_what_sides_are_matched_on_binds_both() -> None:
    assert told("a and on (queue) (b > 3)") == [("a", {"queue"}, []), ("b", {"queue"}, [])]
    assert told("a and on () b") == [("a", set(), []), ("b", set(), [])]


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(ValueError, match="not understood"):
        selectors("a ~ b")
