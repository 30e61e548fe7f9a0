"""Flow-control objects: what they say, when they stay, and what is taken away."""

from hypothesis import given
from hypothesis import strategies as st

from muster.guard.core.config import Kind, Subjects
from muster.guard.core.flow import (
    BALLAST,
    Level,
    differences,
    leftovers,
    level_of,
    objects_of,
    plan_of,
    wants_of,
)
from muster.guard.core.seats import Plan, ServerSeats, are_right
from muster.kube.objects import JsonObject, at, integer, name_of, objects, text

SECRETS = Kind("secrets", seats=2)
SERVER = ServerSeats(600, 600)
DEFAULTS = tuple(
    Level(name, shares)
    for name, shares in {
        "catch-all": 5, "system": 30, "node-high": 40, "leader-election": 10,
        "workload-high": 40, "workload-low": 100, "global-default": 20, "exempt": 0,
    }.items()
)  # fmt: skip


def planned(levels: tuple[Level, ...], *kinds: Kind) -> Plan:
    found = plan_of(kinds or (SECRETS,), levels, server=SERVER)
    assert isinstance(found, Plan)
    return found


def applied(levels: tuple[Level, ...], *kinds: Kind) -> tuple[Level, ...]:
    """The levels after the plan's objects were put in the place of the guard's own."""
    own = [level_of(one) for one in objects_of(kinds or (SECRETS,), Subjects.EVERYBODY, planned(levels, *kinds))
           if text(one, "kind") == "PriorityLevelConfiguration"]  # fmt: skip
    return (*(level for level in levels if not level.managed), *own)


def test_a_level_lends_and_borrows_nothing_and_the_ballast_lends_all() -> None:
    level, ballast, schema = objects_of([SECRETS], Subjects.SERVICE_ACCOUNTS, planned(DEFAULTS))
    assert level_of(level) == Level("muster-list-secrets", 1, lendable=0, borrowing=0, managed=True)
    assert level_of(ballast) == Level(BALLAST, 54, lendable=100, borrowing=0, managed=True)
    assert at(schema, "spec", "priorityLevelConfiguration", "name") == "muster-list-secrets"


def test_a_schema_catches_service_accounts_after_nodes_and_controllers() -> None:
    *_, schema = objects_of([SECRETS], Subjects.SERVICE_ACCOUNTS, planned(DEFAULTS))
    (rule,) = objects(schema, "spec", "rules")
    (subject,) = objects(rule, "subjects")
    assert text(subject, "group", "name") == "system:serviceaccounts"
    assert 800 < integer(schema, "spec", "matchingPrecedence") < 900


def test_a_level_without_a_borrowing_limit_is_told_from_one_with_zero() -> None:
    raw: JsonObject = {"metadata": {"name": "x"}, "spec": {"type": "Limited", "limited": {"lendablePercent": 50}}}
    assert level_of(raw) == Level("x", 30, lendable=50, borrowing=None)


def test_an_exempt_level_has_no_shares_unless_it_says_so() -> None:
    assert level_of({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {}}}).shares == 0


def test_what_is_right_is_not_written_again() -> None:
    levels = applied(DEFAULTS)
    assert planned(levels) == planned(DEFAULTS)
    fewer = tuple(level for level in levels if level.name != "leader-election")
    more = (*fewer, Level("somebodys", 12))  # 302 shares in sum still give 2 seats
    assert planned(more).shares == (1,)
    assert planned(more).ballast == 54


@given(shares=st.lists(st.integers(0, 200), max_size=6), pods=st.integers(1, 30))
def test_when_other_levels_change_the_seats_are_right_again(shares: list[int], pods: int) -> None:
    kinds = (SECRETS, Kind("pods", seats=pods))
    before = applied(DEFAULTS, *kinds)
    changed = (*before, *(Level(f"other-{number}", one) for number, one in enumerate(shares)))
    after = applied(changed, *kinds)
    by_name = {level.name: level.shares for level in after}
    mine = [by_name[kind.level] for kind in kinds]
    assert are_right(mine, wants_of(kinds), total=sum(by_name.values()), server=SERVER)


def test_only_what_differs_is_written() -> None:
    wanted = objects_of([SECRETS], Subjects.EVERYBODY, planned(DEFAULTS))
    assert list(differences(wanted, wanted)) == []
    found = [*wanted[1:], {**wanted[0], "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 3}}}]
    assert list(differences(found, wanted)) == [wanted[0]]


def test_what_the_server_adds_is_no_difference() -> None:
    wanted = objects_of([SECRETS], Subjects.EVERYBODY, planned(DEFAULTS))
    found = [{**one, "status": {"conditions": []}, "metadata": {"name": name_of(one), "uid": "1"}} for one in wanted]
    assert list(differences(found, wanted)) == []


def test_own_objects_that_nobody_wants_go_the_schema_before_its_level() -> None:
    before = objects_of([SECRETS, Kind("pods")], Subjects.EVERYBODY, planned(DEFAULTS, SECRETS, Kind("pods")))
    after = objects_of([SECRETS], Subjects.EVERYBODY, planned(DEFAULTS))
    foreign: JsonObject = {"kind": "FlowSchema", "metadata": {"name": "list-requests"}}
    gone = leftovers([foreign, *before], after)
    assert [(text(one, "kind"), name_of(one)) for one in gone] == [
        ("FlowSchema", "muster-list-pods"),
        ("PriorityLevelConfiguration", "muster-list-pods"),
    ]


def test_somebody_elses_object_with_a_copied_label_is_left_alone_and_counts() -> None:
    theirs: JsonObject = {
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "theirs", "labels": {"app.kubernetes.io/managed-by": "muster-guard"}},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 700}},
    }
    assert leftovers([theirs], []) == []
    assert planned((*DEFAULTS, level_of(theirs))).total == 945 + 2
