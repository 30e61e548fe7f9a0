"""Checks that nobody asked for: beside jobs, and deep ones of nodes that idle."""

from collections import Counter
from dataclasses import replace

import pytest

from kit.health import CONFIG, VirtualHealth, device
from muster.core import after
from muster.health.core.config import PatrolConfig
from muster.schemas.facts.health import HealthPhase
from muster.schemas.facts.node import NodeLeft
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, ChecksRequested

HOUR_S = 3_600.0
LIGHT = (CheckOrder(check="gpu-health"),)
DEEP = (CheckOrder(check="dcgm"),)
JOB = "A" * 26


def harness(**fields: object) -> VirtualHealth:
    patrol = replace(PatrolConfig(periodic=LIGHT, deep=DEEP), **fields)  # type: ignore[arg-type]
    one = VirtualHealth(config=replace(CONFIG, patrol=patrol))
    one.join("a", "b", "c", "d")
    return one


def run_for(one: VirtualHealth, hours: float, *, step_s: float = 300.0) -> None:
    end = after(one.now, hours * HOUR_S)
    while one.now < end:
        one.settle()
        one.now = after(one.now, step_s)


def asked(one: VirtualHealth, reason: str) -> list[str]:
    payloads = [(fact.subject_id, fact.payload) for fact in one.facts("checks-requested")]
    return [node for node, payload in payloads if isinstance(payload, ChecksRequested) and payload.reason == reason]


def test_by_itself_nothing_is_checked() -> None:
    one = harness()
    run_for(one, 100, step_s=HOUR_S)
    assert not one.facts("checks-requested")
    assert one.core.next_wakeup() is None


def test_every_node_is_checked_once_in_every_interval_and_not_all_at_once() -> None:
    one = harness(periodic_every_s=6 * HOUR_S)
    run_for(one, 6)
    assert sorted(asked(one, "periodic")) == ["a", "b", "c", "d"]
    moments = {fact.time for fact in one.facts("checks-requested")}
    assert len(moments) > 1
    run_for(one, 6.5)
    assert set(Counter(asked(one, "periodic")).values()) <= {2, 3}


def test_who_begins_later_puts_no_first_round_off() -> None:
    one = harness(periodic_every_s=168 * HOUR_S)
    later = VirtualHealth(config=one.config, now=after(one.now, HOUR_S))
    later.join("a", "b", "c", "d")
    for other in (one, later):
        other.settle()
    assert one.core.next_wakeup() == later.core.next_wakeup()


def test_a_periodic_check_that_fails_is_a_fault() -> None:
    one = harness(periodic_every_s=HOUR_S)
    one.passes = CheckOutcome.FAIL
    one.answers = False
    run_for(one, 1)
    assert one.facts("suspect")


def test_an_idle_node_is_checked_deeply_and_comes_back_and_history_does_not_count_it() -> None:
    one = harness(deep_every_s=24 * HOUR_S)
    run_for(one, 24)
    assert sorted(fact.subject_id for fact in one.facts("healthy")) == ["a", "b", "c", "d"]
    payloads = [fact.payload for fact in one.facts("checks-requested")]
    assert {order.check for one in payloads if isinstance(one, ChecksRequested) for order in one.checks} == {"dcgm"}
    assert one.core.verdicts.state.incidents == 0
    assert not one.core.verdicts.state.brake.nodes


def test_a_node_in_use_is_left_alone() -> None:
    one = harness(deep_every_s=24 * HOUR_S)
    one.run(JOB, "vision", "a", "b", "c", "d")
    run_for(one, 30)
    assert not one.facts("suspect")


def test_one_idle_node_at_a_time() -> None:
    one = harness(deep_every_s=HOUR_S)
    one.answers = False
    run_for(one, 5)
    assert len(one.core.verdicts.state.ill) == 1


def test_a_sick_node_is_not_checked_beside() -> None:
    one = harness(periodic_every_s=HOUR_S)
    one.answers = False
    one.page("a", device("a", 0, xid=79))
    run_for(one, 3)
    assert "a" not in asked(one, "periodic")
    assert one.phase("node", "a") is HealthPhase.SUSPECT


@pytest.mark.parametrize("hours", [0.0, 1.0])
def test_who_takes_over_keeps_to_the_rounds(hours: float) -> None:
    one = harness(periodic_every_s=6 * HOUR_S)
    run_for(one, 6)
    other = one.recovered()
    run_for(other, hours)
    assert len(asked(other, "periodic")) <= 5


def test_a_node_that_left_and_came_again_is_checked_no_more_often() -> None:
    one = harness(periodic_every_s=6 * HOUR_S)
    for _ in range(5):
        one.write("agent", "node", "a", "left", NodeLeft())
        one.join("a")
        one.settle()
    run_for(one, 12)
    assert Counter(asked(one, "periodic")) == dict.fromkeys("abcd", 2)
