"""The phase that health has a node in, as rows show it."""

from kit.projector_nodes import after
from muster.schemas.base import Payload
from muster.schemas.facts.health import HealthMoved, HealthPhase, UnitState

MOVED = HealthMoved(node="n1", because="xid-79")


def moved(*names: str) -> tuple[tuple[str, str, str, Payload], ...]:
    return tuple(("node", "n1", name, MOVED) for name in names)


def test_a_node_shows_the_phase_that_health_moved_it_to_last() -> None:
    assert after(*moved("suspect")).condition == "suspect"
    assert after(*moved("suspect", "quarantined")).condition == "quarantined"


def test_a_healthy_node_shows_none() -> None:
    assert after().condition == ""
    assert after(*moved("suspect", "quarantined", "verifying", "healthy")).condition == ""


def test_a_checkpoint_tells_it_too() -> None:
    stored = UnitState(node="n1", phase=HealthPhase.REPAIRING)
    assert after(("node", "n1", "state-recorded", stored)).condition == "repairing"
