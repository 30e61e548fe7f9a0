"""Who lists how much: a sliding window, bounded; and where clients are known from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core import Instant
from muster.core.instant import after
from muster.guard.audit import Listed, agent_of, listed_of
from muster.guard.core.checks import check_lists
from muster.guard.core.clients import OTHERS, ClientTally, lists_of
from muster.guard.core.config import GuardConfig
from muster.guard.core.limits import CLIENTS_MAX, WINDOW_S
from muster.guard.core.look import ClientLists, Look
from muster.kube.objects import JsonObject

NOW = Instant(5_000_000_000_000)


def dumped(user: str, verb: str, path: str, *, resource: str, arrived: str, name: str = "", version: str = "v1") -> str:
    """A row as the API server pads it: 18 columns, the last empty."""
    columns = (
        "low", "global", "1", "-1", user, arrived, "1", "0", "0s", arrived, user, verb, path, "", name, version,
        resource, "",
    )  # fmt: skip
    return ",  ".join(columns)


DUMP = (
    "PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime",
    dumped("ann", "list", "/api/v1/secrets", resource="secrets", arrived="1"),
    dumped("ann", "list", "/apis/batch/v1/jobs", resource="jobs", version="batch/v1", arrived="2"),
    dumped("ann", "get", "/api/v1/secrets/x", resource="secrets", name="x", arrived="3"),
    dumped("system:node:n1", "list", "/api/v1/secrets", resource="secrets", arrived="4"),
    "too, short",
)


def test_rates_are_those_of_the_window() -> None:
    tally = ClientTally()
    for second in range(60):
        tally.add(after(NOW, second), agent="a/1", user="u", resource="secrets", lists=2)
    (client,) = tally.rates(after(NOW, 60))
    assert client.per_minute == pytest.approx(120, abs=25)
    assert tally.rates(after(NOW, 60 + WINDOW_S + 20)) == ()


def test_a_young_tally_does_not_make_a_burst_of_one_list() -> None:
    tally = ClientTally()
    tally.add(NOW, agent="a/1", user="u", resource="secrets")
    (client,) = tally.rates(after(NOW, 0.1))
    assert client.per_minute == 6


def test_more_clients_than_are_told_apart_are_counted_as_one() -> None:
    tally = ClientTally()
    for number in range(CLIENTS_MAX + 5):
        tally.add(NOW, agent=f"a/{number}", user="u", resource="pods")
    rates = tally.rates(NOW)
    assert len(rates) == CLIENTS_MAX + 1
    assert (rates[0].agent, rates[0].lists) == (OTHERS, 5)


@given(st.lists(st.tuples(st.floats(0, 200), st.integers(0, 3)), max_size=60))
def test_what_is_counted_is_what_came_within_the_window(events: list[tuple[float, int]]) -> None:
    tally = ClientTally()
    ordered = sorted(events)
    for at_s, client in ordered:
        tally.add(after(NOW, at_s), agent=str(client), user="u", resource="r")
    end_s = ordered[-1][0] if ordered else 0.0
    counted = sum(client.lists for client in tally.rates(after(NOW, end_s)))
    surely = sum(at_s > end_s - WINDOW_S + 10 for at_s, _ in events)
    at_most = sum(at_s >= end_s - WINDOW_S for at_s, _ in events)
    assert surely <= counted <= at_most


def event(**changes: object) -> JsonObject:
    return {
        "stage": "ResponseComplete", "verb": "list", "requestURI": "/api/v1/secrets?limit=500",
        "userAgent": "kubectl/v1.34.4 (linux/amd64) kubernetes/abc", "user": {"username": "ann"},
        "objectRef": {"resource": "jobs", "apiGroup": "batch"}, **changes,
    }  # fmt: skip


def test_an_audit_event_tells_the_user_agent() -> None:
    assert listed_of(event()) == Listed("kubectl/v1.34.4", "ann", "jobs.batch")
    assert agent_of("x" * 1_000) == "x" * 119 + "…"
    assert agent_of("a\x00\nb c") == "a??b"


@pytest.mark.parametrize(
    "changes",
    [
        {"verb": "get"},
        {"stage": "ResponseStarted"},
        {"requestURI": "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Dtoken&limit=1"},
        {"objectRef": {"resource": "secrets", "name": "token"}},
    ],
)
def test_what_is_no_list_of_many_does_not_count(changes: dict[str, object]) -> None:
    assert listed_of(event(**changes)) is None


def test_a_dump_of_requests_tells_users_queued_or_at_work_but_no_kubelets() -> None:
    assert [(one.user, one.resource) for one in lists_of(DUMP)] == [
        ("ann", "secrets"),
        ("ann", "jobs.batch"),
    ]


def test_however_long_a_client_calls_things_what_is_said_of_it_fits_a_fact() -> None:
    listed = listed_of(
        event(userAgent="a" * 9_000, user={"username": "b" * 9_000}, objectRef={"resource": "r" * 9_000})
    )
    assert listed is not None
    client = ClientLists(listed.agent, listed.user, listed.resource, 9_000.0)
    seen = Look(NOW, clients=(client,), clients_from="audit")
    (finding,) = check_lists(seen, GuardConfig()) or []
    assert len(finding.advice.detail) <= 1_024
