"""From what a cluster shows to what is written, and how it stands."""

from muster.guard.core.config import Kind, Subjects
from muster.guard.core.flow import API_VERSION, LEVEL, objects_of
from muster.guard.core.flow_plan import FlowPlan, flow_plan, server_seats_of
from muster.guard.core.look import Replica
from muster.guard.core.seats import Plan, ServerSeats
from muster.kube.objects import JsonObject, name_of
from unit.guard.pages_samples import DEFAULT_LEVELS, DEFAULT_SEATS, replica

KIND = Kind("secrets", seats=2)
DEFAULTS: list[JsonObject] = [
    {
        "apiVersion": API_VERSION,
        "kind": LEVEL,
        "metadata": {"name": level.name, "labels": {}},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": level.shares}},
    }
    for level in DEFAULT_LEVELS
]
DEFAULT_SERVER = ServerSeats(600, 600)
OURS = objects_of([KIND], Subjects.EVERYBODY, Plan((1,), 54, 300))


def planned(found: list[JsonObject], *replicas: Replica, server: ServerSeats | None = DEFAULT_SERVER) -> FlowPlan:
    return flow_plan([KIND], Subjects.EVERYBODY, found, replicas=replicas, server=server)


def showing(seats: int | None, name: str = "a") -> Replica:
    own = {} if seats is None else {KIND.level: seats}
    return replica(name, seats={**DEFAULT_SEATS, **own})


def test_what_is_missing_is_written_the_levels_before_the_schema() -> None:
    plan = planned(DEFAULTS, showing(None))
    assert [name_of(one) for one in plan.writes] == [KIND.level, "muster-ballast", KIND.level]
    assert (plan.looks[0].found, plan.looks[0].is_right) == (None, False)


def test_it_is_right_when_objects_and_every_replicas_seats_are() -> None:
    (seen,) = planned([*DEFAULTS, *OURS], showing(2), showing(2, "b")).looks
    assert (seen.is_right, seen.found, seen.reason) == (True, (2, 2), "")
    (lagging,) = planned([*DEFAULTS, *OURS], showing(2), showing(3, "b")).looks
    assert (lagging.is_right, lagging.found, lagging.reason) == (False, (2, 3), "API servers have not applied it yet")


def test_what_is_right_is_not_written() -> None:
    plan = planned([*DEFAULTS, *OURS], showing(2))
    assert (plan.writes, plan.deletes) == ((), ())


def test_a_level_that_somebody_else_made_has_it_written_anew() -> None:
    other: JsonObject = {
        "kind": LEVEL,
        "metadata": {"name": "theirs", "labels": {}},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 700}},
    }
    plan = planned([*DEFAULTS, *OURS, other], showing(1))
    assert [name_of(one) for one in plan.writes] == [KIND.level]
    assert [name_of(one) for one in plan.deletes] == ["muster-ballast"]
    assert plan.looks[0].total == 945 + 2


def test_without_seats_nothing_is_written_and_it_is_said_why() -> None:
    plan = planned(DEFAULTS, showing(None), server=None)
    assert plan.writes == ()
    assert "do not show their seats" in plan.looks[0].reason


def test_what_cannot_be_is_said_and_not_written() -> None:
    plan = planned(DEFAULTS, showing(None), server=ServerSeats(300, 600))
    assert plan.writes == ()
    assert "same --max-requests-inflight" in plan.looks[0].reason


def test_a_level_that_may_borrow_everything_says_the_servers_seats_exactly() -> None:
    seen = replica(upper_seats={"catch-all": 613})
    assert server_seats_of([seen], DEFAULT_LEVELS) == ServerSeats(600, 600)


def test_without_upper_limits_the_nominal_seats_leave_a_few_numbers() -> None:
    assert server_seats_of([replica()], DEFAULT_LEVELS) == ServerSeats(598, 600)


def test_replicas_with_different_flags_are_seen() -> None:
    found = server_seats_of([replica(upper_seats={"catch-all": 613}), replica(upper_seats={"catch-all": 913})],
                            DEFAULT_LEVELS)  # fmt: skip
    assert found == ServerSeats(600, 900)


def test_replicas_that_do_not_answer_tell_nothing() -> None:
    assert server_seats_of([Replica("a", error="away")], DEFAULT_LEVELS) is None
