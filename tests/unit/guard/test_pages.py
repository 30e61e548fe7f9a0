"""What is kept of a page of metrics, and what two pages tell together."""

from math import inf

import pytest

from muster.guard.core.pages import page_of, per_minute, quantile_s, sample_of

TEXT = b"""
# HELP process_resident_memory_bytes Resident memory size in bytes.
process_resident_memory_bytes 5.24288e+08
process_start_time_seconds 1.7e+09
go_gc_gogc_percent 50
go_gc_gomemlimit_bytes 9.223372036854776e+18
kubernetes_build_info{build_date="x",git_version="v1.34.4",platform="linux/amd64"} 1
apiserver_current_inflight_requests{request_kind="mutating"} 11
apiserver_current_inflight_requests{request_kind="readOnly"} 2
apiserver_longrunning_requests{group="",resource="pods",scope="cluster",verb="WATCH"} 4
apiserver_longrunning_requests{group="",resource="pods",scope="cluster",verb="CONNECT"} 9
apiserver_request_total{code="200",group="",resource="secrets",scope="cluster",verb="LIST"} 7
apiserver_request_total{code="429",group="",resource="secrets",scope="namespace",verb="LIST"} 3
apiserver_request_total{code="200",group="batch",resource="jobs",scope="cluster",verb="LIST"} 1
apiserver_request_total{code="200",group="",resource="secrets",scope="resource",verb="GET"} 100
apiserver_resource_objects{group="batch",resource="jobs"} 12
apiserver_resource_size_estimate_bytes{group="batch",resource="jobs"} 4096
apiserver_flowcontrol_nominal_limit_seats{priority_level="catch-all"} 13
apiserver_flowcontrol_upper_limit_seats{priority_level="catch-all"} 613
apiserver_flowcontrol_current_inqueue_requests{flow_schema="a",priority_level="p"} 2
apiserver_flowcontrol_current_inqueue_requests{flow_schema="b",priority_level="p"} 3
apiserver_flowcontrol_request_wait_duration_seconds_bucket{execute="true",priority_level="p",le="0.5"} 1
etcd_requests_total{operation="get"} 5
broken{
apiserver_flowcontrol_request_wait_duration_seconds_bucket{priority_level="p",le="abc"} 1
"""


def test_what_the_guard_keeps_of_a_page() -> None:
    page = page_of(TEXT.splitlines())
    assert page.rss_bytes == 500 * 2**20
    assert (page.gogc, page.memory_limit_bytes, page.version) == (50, None, "v1.34.4")
    assert (page.reading, page.writing) == (2, 11)
    assert page.watches == {"pods": 4}
    assert page.lists == {"secrets": 10, "jobs.batch": 1}
    assert page.requests == 111
    assert (page.objects, page.sizes) == ({"jobs.batch": 12}, {"jobs.batch": 4096})
    assert (page.seats, page.upper_seats) == ({"catch-all": 13}, {"catch-all": 613})
    assert page.queued == {"p": 5}
    assert page.waits == {("p", 0.5): 1}


def test_a_page_of_something_else_is_empty() -> None:
    assert page_of([b"<html>", b"503 nobody is there"]).rss_bytes == 0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'a{x="1",y="two, three"} 4', ("a", {"x": "1", "y": "two, three"}, 4.0)),
        (b'a{x="}"} 4 1700000000', ("a", {"x": "}"}, 4.0)),
        (b"a 4e2", ("a", {}, 400.0)),
        (b"# TYPE a gauge", None),
        (b"a", None),
        (b"a x", None),
    ],
)
def test_a_line_is_a_sample_or_nothing(line: bytes, found: object) -> None:
    assert sample_of(line) == found


def test_counters_of_a_restarted_process_began_at_nothing() -> None:
    assert per_minute({"a": 100.0}, {"a": 130.0, "b": 10.0}, seconds=30, restarted=False) == {"a": 60.0, "b": 20.0}
    assert per_minute({"a": 100.0}, {"a": 5.0}, seconds=30, restarted=True) == {"a": 10.0}


def test_what_does_not_grow_has_no_rate() -> None:
    assert per_minute({"a": 5.0}, {"a": 5.0}, seconds=30, restarted=False) == {}
    assert per_minute({}, {"a": 5.0}, seconds=0, restarted=False) == {}


def test_the_wait_of_99_of_100_is_the_bucket_that_holds_them() -> None:
    grown = {("p", 0.1): 90.0, ("p", 1.0): 99.0, ("p", inf): 100.0, ("q", 0.1): 1.0, ("q", inf): 10.0}
    assert quantile_s(grown) == {"p": 1.0, "q": 0.1}
