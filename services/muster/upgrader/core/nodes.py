"""What the upgrader asks of a node's description; None of a node that is not part of the cluster."""

from muster.schemas.facts.node import NodeJoined

MILLI = 1000


def gpus(described: NodeJoined | None) -> int:
    """Return the number of devices that are there."""
    return 0 if described is None else len(described.present)


def domain(described: NodeJoined | None, level: str) -> str:
    """Return the node's domain of a level, "" without one."""
    return "" if described is None else dict(described.domains).get(level, "")


def version(described: NodeJoined | None, component: str) -> str:
    """Return the version of one of the node's components, "" if that is not known."""
    return "" if described is None else dict(described.versions).get(component, "")
