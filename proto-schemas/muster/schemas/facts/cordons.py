"""Facts of people closing nodes: cordon, drain, resume. What services close stands apart, see `node`."""

from muster.schemas.base import InstantNs, Payload, Text, Wire


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
