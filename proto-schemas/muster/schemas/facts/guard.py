"""Facts of the guard: what endangers the API server, and what protects it."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import Label, Payload, Text, Wire

FIGURES_MAX = 32


class Figure(Wire):
    """One measured number behind an advice. name: ends with the unit."""

    name: Label
    value: float


class AdviceRaised(Payload):
    """`raised` of an advice (kind `advice`, subject: `<code>` or `<code>-<hash of its object>`).

    code: of the guard's catalogue (`lists-too-much`, `memory-skew`, `garbage-collection`, `secrets-per-workload`,
    ...). about: a client, a replica or a workload. detail: with numbers. cure: what to do. Emitted again when it
    became much worse.
    """

    code: Label
    about: Text = ""
    severity: str = "warning"
    detail: Text = ""
    cure: Text = ""
    figures: Annotated[tuple[Figure, ...], Field(max_length=FIGURES_MAX)] = ()


class AdviceCleared(Payload):
    """`cleared`: the advice no longer applies. lasted_s: time since it was raised."""

    code: Label
    lasted_s: float = 0.0


class FlowApplied(Payload):
    """`applied` of a flow (kind `flow`, subject: its priority level): the flow-control objects were written.

    seats: wanted, per API server. shares, ballast_shares, total_shares, server_seats: the input of the computation.
    resource, verbs: the limited requests. why: what changed.
    """

    seats: int
    shares: int
    ballast_shares: int
    total_shares: int
    server_seats: int
    resource: Label
    verbs: tuple[Label, ...] = ("list",)
    why: Text = ""


class FlowDrifted(Payload):
    """`drifted` of a flow: the level has other seats than wanted. reason: why this is not corrected."""

    seats: int
    seats_found: int
    reason: Text = ""


class AdviceState(Payload):
    """`state-recorded` of an active advice, by the guard. raised_at: since when."""

    raised: AdviceRaised
    raised_at: int = 0
    fact: str = ""


class FlowState(Payload):
    """`state-recorded` of a flow, by the guard. drifted: the last deviation; None without one."""

    applied: FlowApplied | None = None
    drifted: FlowDrifted | None = None
    at: int = 0
