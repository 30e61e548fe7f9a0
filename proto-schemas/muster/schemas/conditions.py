"""State of nodes and devices: `GET /v1/conditions`, `muster health`, the dashboard. Answered by health's leader."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Wire
from muster.schemas.facts.health import BrakeTripped, FaultClass, FaultMark, HealthPhase, OpenFault

CONDITIONS_MAX = 5_000
EPISODES_MAX = 200


class AskConditions(Wire):
    """Question to health (`conditions`). node: only this node, with recent observations; "": everything unhealthy."""

    node: str = ""


class Condition(Wire):
    """A node or device (uuid) that is not healthy or has open faults.

    withheld: it is drained. maintained_by: other services that have it. running: treatment of running jobs.
    """

    kind: str
    name: str
    node: str
    phase: HealthPhase
    since: InstantNs = 0
    began_at: InstantNs = 0
    because: str = ""
    faults: tuple[OpenFault, ...] = ()
    attempt: int = 0
    action: str = ""
    needs_person: bool = False
    withheld: bool = False
    maintained_by: tuple[str, ...] = ()


class EndedIllness(Wire):
    """An incident that is over. attempts: of repair or checks."""

    kind: str
    name: str
    node: str
    codes: tuple[str, ...] = ()
    began_at: InstantNs = 0
    ended_at: InstantNs = 0
    attempts: int = 0


class BrakeView(Wire):
    """The brake. nodes: suspected within the window; most: the limit. tripped: why it waits for an operator."""

    nodes: int = 0
    most: int = 0
    window_s: float = 0.0
    tripped: BrakeTripped | None = None
    tripped_at: InstantNs = 0


class FaultCount(Wire):
    """Number of observations of a code since this leader began."""

    code: str
    fault_class: FaultClass
    count: int = 0


class ConditionsAnswer(Wire):
    """Answer of `conditions`. conditions: those that need a person first, then newest first. ended: newest first.
    marks: of the requested node, newest first. opted_out: of that node: observations are recorded without
    consequences. known: the requested node is part of the cluster."""

    cluster: str = ""
    nodes: int = 0
    dry_run: bool = False
    conditions: Annotated[tuple[Condition, ...], Field(max_length=CONDITIONS_MAX)] = ()
    ended: Annotated[tuple[EndedIllness, ...], Field(max_length=EPISODES_MAX)] = ()
    brake: BrakeView = BrakeView()
    counts: tuple[FaultCount, ...] = ()
    marks: tuple[FaultMark, ...] = ()
    opted_out: bool = False
    known: bool = True
    at: InstantNs = 0
