"""Facts of people closing nodes: cordon, drain, resume. What services close stands apart, see `node`."""

from enum import StrEnum

from muster.schemas.base import InstantNs, Label, Payload, Text, Wire


class CordonRequested(Payload):
    """`cordon-requested`, `drain-requested`, `resume-requested` of a node, by a person, and what federation forwards.

    cordon: nothing new is placed there. drain: besides, jobs that allow it are checkpointed and moved; the others
    finish. Neither kills. resume: the person wants it used again; what services withhold it for stands.
    """

    principal: str
    reason: Text = ""
    cluster: str = ""


class Cordon(Wire):
    """A cordon that stands. draining: jobs that allow it are moved. fact: that asked for it."""

    principal: str
    reason: Text = ""
    draining: bool = False
    since: InstantNs = 0
    fact: str = ""


class CordonAsk(StrEnum):
    """What a person asks of a node. The facts are named so, with `-requested` and `-forwarded` behind."""

    CORDON = "cordon"
    DRAIN = "drain"
    RESUME = "resume"


class CordonWish(Wire):
    """One such request that is not forwarded yet, as the federation keeps it. fact: that asked."""

    fact: str
    node: Label
    ask: CordonAsk
    asked: CordonRequested
    trace: str = ""


class CordonWishes(Payload):
    """`state-recorded` of a node, by the federation: what was asked of it and is not forwarded yet."""

    wishes: tuple[CordonWish, ...] = ()
