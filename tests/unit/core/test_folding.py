"""The table from facts to the functions that fold them: one look-up by kind, name and body; mistakes fail at import."""

import pytest

from muster.core import Fact, Instant
from muster.core.folding import Folds
from muster.schemas.base import Payload
from muster.schemas.facts.health import BrakeReset, BrakeTripped
from muster.schemas.facts.job import JobUnschedulable, PodsState
from muster.schemas.facts.node import NodeLeft, NodeLost, NodeReturned
from muster.schemas.facts.operations import ChecksReported
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_NAME

Told = list[str]


def fact(kind: str, name: str, payload: FactBody) -> Fact:
    return Fact("f1", 1, Instant(1), "c", "agent", kind, "s1", name, (), "", payload)


def test_a_function_gets_the_state_the_fact_and_its_body() -> None:
    folds = Folds[Told, None]()

    @folds.on("job", "unschedulable", JobUnschedulable)
    def _unschedulable(told: Told, fact: Fact, short: JobUnschedulable) -> None:
        told.append(f"{fact.subject_id} {short.reason}")

    told: Told = []
    folds.apply(told, fact("job", "unschedulable", JobUnschedulable(reason="no-capacity", detail="")))
    assert told == ["s1 no-capacity"]


def test_apply_returns_what_the_function_returns_and_none_of_a_fact_that_nothing_folds() -> None:
    folds = Folds[Told, bool]()

    @folds.on("node", "left", NodeLeft)
    def _left(_told: Told, _fact: Fact, _: NodeLeft) -> bool:
        return False

    left, lost = fact("node", "left", NodeLeft()), fact("node", "lost", NodeLost())
    assert folds.apply([], left) is False
    assert left in folds
    assert folds.apply([], lost) is None
    assert lost not in folds


def test_kinds_names_and_bodies_may_be_several() -> None:
    folds = Folds[Told, None]()

    @folds.on(("node", "job"), "checks-reported", ChecksReported)
    def _reported(told: Told, fact: Fact, _: ChecksReported) -> None:
        told.append(fact.kind)

    @folds.on("health", ("brake-tripped", "brake-reset"), (BrakeTripped, BrakeReset))
    def _brake(told: Told, _fact: Fact, brake: BrakeTripped | BrakeReset) -> None:
        told.append(type(brake).__name__)

    @folds.on("node", ("lost", "returned", "left"), Payload)
    def _moved(told: Told, fact: Fact, _: Payload) -> None:
        told.append(fact.name)

    assert {key[:2] for key in folds.table} == {
        ("node", "checks-reported"), ("job", "checks-reported"), ("health", "brake-tripped"), ("health", "brake-reset"),
        ("node", "lost"), ("node", "returned"), ("node", "left"),
    }  # fmt: skip
    told: Told = []
    folds.apply(told, fact("node", "returned", NodeReturned()))
    assert told == ["returned"]


def test_recorded_states_of_one_kind_are_told_apart_by_their_body() -> None:
    folds = Folds[Told, None]()

    @folds.on("job", STATE_NAME, PodsState)
    def _pods(told: Told, _fact: Fact, pods: PodsState) -> None:
        told.append(f"attempt {pods.attempt}")

    assert [body for _, _, body in folds.table] == [PodsState]


def test_a_method_folds_into_its_object() -> None:
    class Counter:
        folds = Folds["Counter", int]()

        def __init__(self) -> None:
            self.count = 0

        @folds.on("node", "left", NodeLeft)
        def _left(self, _fact: Fact, _: NodeLeft) -> int:
            self.count += 1
            return self.count

    counter = Counter()
    assert Counter.folds.apply(counter, fact("node", "left", NodeLeft())) == 1
    assert counter.count == 1


def test_tables_are_joined_and_parts_fold_into_themselves() -> None:
    nodes = Folds[Told, None]()
    nodes.on("node", "left", NodeLeft)(lambda told, fact, _: told.append(fact.name))
    parts = Folds[Told, None]()
    parts.on("node", "lost", NodeLost)(lambda told, fact, _: told.append(fact.name))
    joined = Folds[Told, None](nodes)
    part: Told = []
    joined.include(parts, lambda _: part)
    told: Told = []
    joined.apply(told, fact("node", "left", NodeLeft()))
    joined.apply(told, fact("node", "lost", NodeLost()))
    assert (told, part) == (["left"], ["lost"])


@pytest.mark.parametrize(
    ("kind", "name", "body", "problem"),
    [
        ("job", "gone", JobUnschedulable, "there is no fact job gone in the table of facts"),
        ("node", "unschedulable", JobUnschedulable, "there is no fact node unschedulable in the table of facts"),
        ("node", "left", NodeLost, "the body of node left is NodeLeft, not NodeLost"),
    ],
)
def test_a_fact_that_the_table_of_facts_does_not_have_is_refused(
    kind: str, name: str, body: type[Payload], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Folds[Told, None]().on(kind, name, body)


def test_a_fact_is_folded_by_one_function() -> None:
    folds = Folds[Told, None]()
    folds.on("node", "left", NodeLeft)(lambda *_: None)
    with pytest.raises(ValueError, match="node left with NodeLeft is folded already"):
        folds.on("node", "left", NodeLeft)(lambda *_: None)
    with pytest.raises(ValueError, match="node left with NodeLeft is folded already"):
        Folds[Told, None](folds, folds)
    with pytest.raises(ValueError, match="node left with NodeLeft is folded already"):
        folds.include(folds, lambda told: told)
