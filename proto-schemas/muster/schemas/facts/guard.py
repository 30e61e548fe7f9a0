"""Facts of the guard: what endangers the API server, and what protects it."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import Label, Payload, Text, Wire

FIGURES_MAX = 32


class Figure(Wire):
    """One measured number behind an advice. name: with its unit last."""

    name: Label
    value: float


class AdviceRaised(Payload):
    """`raised` of an advice (kind `advice`, subject: `<code>` or `<code>-<hash of whom it is about>`).

    code: of the guard's catalogue (`lists-too-much`, `memory-skew`, `garbage-collection`, `secrets-per-workload`, ...).
    about: a client, a replica, a workload. detail: with numbers. cure: what to do. Said again when it became much
    worse.
    """

    code: Label
    about: Text = ""
    severity: str = "warning"
    detail: Text = ""
    cure: Text = ""
    figures: Annotated[tuple[Figure, ...], Field(max_length=FIGURES_MAX)] = ()


class AdviceCleared(Payload):
    """`cleared`: it is no longer so. lasted_s: since it was raised."""

    code: Label
    lasted_s: float = 0.0


class FlowApplied(Payload):
    """`applied` of a flow (kind `flow`, subject: its priority level): flow-control objects are so.

    seats: wanted, per API server. shares, ballast_shares, total_shares, server_seats: from which they follow.
    resource, verbs: what it holds back. why: what changed.
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
    """`drifted` of a flow: the level has other seats than wanted, and what stands in the way of mending it."""

    seats: int
    seats_found: int
    reason: Text = ""


class AdviceState(Payload):
    """`state-recorded` of an advice that stands, by the guard. raised_at: since when."""

    raised: AdviceRaised
    raised_at: int = 0
    fact: str = ""


class FlowState(Payload):
    """`state-recorded` of a flow, by the guard. drifted: as said last, None while it is as it should be."""

    applied: FlowApplied | None = None
    drifted: FlowDrifted | None = None
    at: int = 0
