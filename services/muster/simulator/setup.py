"""What an engine is told before anything happens: its nodes join, its queues are made."""

from muster.schemas.facts.queue import QueueChangeRefused, QueueChangeRequested, QueueSpec
from muster.simulator.engine import Engine
from muster.simulator.errors import InputError

PRINCIPAL = "simulator"
SURVEY_ROUNDS = 4
"""Decisions in which the composer asks for a look at each fabric and hears what it showed."""


def join_nodes(engine: Engine) -> None:
    """Every node joins, now; none is released yet."""
    engine.settle_core("agent")


def survey_fabrics(engine: Engine) -> None:
    """Fabrics are looked at before anything scales: their pools, and what stands on machines, are known."""
    for _ in range(SURVEY_ROUNDS if "composer" in engine.cores else 0):
        engine.decide_once("composer")


def set_queue(engine: Engine, spec: QueueSpec, *, at: str) -> None:
    """Make or change a queue, now. at: where it stands, for errors. Raises InputError if the scheduler refuses it."""
    wish = QueueChangeRequested(spec=spec, principal=PRINCIPAL)
    engine.write("federation", "queue", spec.name, "change-forwarded", wish)
    for fact in engine.settle_core("scheduler", only=lambda draft: draft.kind == "queue"):
        if isinstance(fact.payload, QueueChangeRefused):
            raise InputError(f"{at}.{fact.payload.field}", fact.payload.reason)
