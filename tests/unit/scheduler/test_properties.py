"""The design's invariants over random histories: late, doubled and lost words of others, refused batches, crashes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.invariants import violations
from kit.scheduler import VirtualScheduler, belief, ledger_balances
from kit.scheduler_properties import HISTORY, Harness

FULL = [
    *(("route", which, 0) for which in (8, 10)), ("decide", 0, 0), ("decide", 0, 0), ("decide", 0, 0),
    *((op, which, 0) for which in (8, 10) for op in ("start", "deliver", "decide")),
    *(("route", which, 0) for which in (0, 9, 3)), ("decide", 0, 0),
]  # fmt: skip
"""All four GPUs are held by those that may be preempted at once, and others of higher priority come."""


@settings(max_examples=150)
@given(st.sampled_from([[], FULL]), HISTORY)
def test_invariants_hold_over_every_history(before: list[tuple[str, int, int]], history: list) -> None:
    harness = Harness()
    for op, which, extra in [*before, *history]:
        harness.do(op, which, extra)
        ledger_balances(harness.world.core)
    harness.finish()
    world = harness.world
    said = [fact for fact in world.log if fact.writer in ("scheduler", "federation")]
    assert violations(said, accepted=harness.routed, all_ended=True) == []
    assert belief(world.refold()) == belief(world.refold()) == belief(world.core)
    assert belief(world.recover()) == belief(world.core)
    assert all(total.used_milli == 0 for total in world.core.state.fleet.totals.values())
    assert not any(anomaly.endswith("out of turn") for anomaly in world.core.state.anomalies)


@settings(max_examples=60)
@given(HISTORY, st.lists(st.integers(0, 400), max_size=12), st.lists(st.integers(0, 400), max_size=12))
def test_a_log_with_holes_and_doubles_still_folds(
    history: list[tuple[str, int, int]], holes: list[int], doubles: list[int]
) -> None:
    """No reader gives such a log to a core; should one ever, the core counts what it cannot fit and goes on."""
    harness = Harness()
    for op, which, extra in history:
        harness.do(op, which, extra)
    world = harness.world
    facts = [fact for fact in world.log if fact.seq not in holes for _ in range(1 + (fact.seq in doubles))]
    cores = []
    for _ in range(2):
        core = VirtualScheduler(queues=()).core
        for fact in facts:
            core.apply(fact)
            core.decide(world.now)
        cores.append(belief(core))
    assert cores[0] == cores[1]
