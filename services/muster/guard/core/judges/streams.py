"""`http2-streams`: a kubelet has as many watches as its one HTTP/2 connection has streams, and its requests wait."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.limits import KUBELET_WATCHES, STREAMS_PART
from muster.guard.core.look import Look

CODE = "http2-streams"
_ROUND = 250


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:  # noqa: ARG001 - a judge
    """From what the API servers offer in their SETTINGS frame and the busiest node's secrets and config maps."""
    offered = min((replica.streams_max for replica in look.up if replica.streams_max), default=0)
    if look.pods is None or not offered:
        return None
    wanted = look.pods.watches_of_node + KUBELET_WATCHES
    advised = -(-2 * wanted // _ROUND) * _ROUND
    return [
        finding(
            code=CODE,
            degree=wanted / (offered * STREAMS_PART),
            detail=(
                f"the kubelet of {look.pods.busiest_node or 'the busiest node'} keeps about {wanted} watches "
                f"({look.pods.watches_of_node} of secrets and config maps) on one connection, and API servers allow "
                f"{offered} streams on it: its other requests wait for a free one"
            ),
            cure=(
                f"start API servers with --http2-max-streams-per-connection={advised}, or let workloads have fewer "
                f"secrets"
            ),
            figures=(("watches", float(wanted)), ("streams_max", float(offered))),
        )
    ]
