"""How nodes and devices are: `GET /v1/conditions`, `muster health`, the dashboard. Answered by health's leader."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Wire
from muster.schemas.facts.health import BrakeTripped, FaultClass, FaultMark, HealthPhase, OpenFault

CONDITIONS_MAX = 5_000
EPISODES_MAX = 200


class AskConditions(Wire):
    """To health (`conditions`). node: it alone, with what was seen of it lately; "": everything that is not healthy."""

    node: str = ""


class Condition(Wire):
    """A node, or a device of it (uuid), that is not healthy or has faults that stand.

    withheld: nothing is held there. maintained_by: services that have it, and not health. running: treatment of who
    still holds it.
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
    """One that is over. attempts: of repair or checks."""

    kind: str
    name: str
    node: str
    codes: tuple[str, ...] = ()
    began_at: InstantNs = 0
    ended_at: InstantNs = 0
    attempts: int = 0


class BrakeView(Wire):
    """The brake. nodes: suspected within the window; most: so many may be. tripped: why it waits for a person."""

    nodes: int = 0
    most: int = 0
    window_s: float = 0.0
    tripped: BrakeTripped | None = None
    tripped_at: InstantNs = 0


class FaultCount(Wire):
    """How often a code was observed since this leader began."""

    code: str
    fault_class: FaultClass
    count: int = 0


class ConditionsAnswer(Wire):
    """conditions: what needs a person first, then newest first. ended: newest first. marks: of the asked node, newest
    first. opted_out: of it: what is seen is recorded, and nothing follows. known: the asked node is part of the
    cluster.
    """

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
