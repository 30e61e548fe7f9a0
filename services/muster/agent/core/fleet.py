"""The simulated cluster's nodes: a regular fleet, or exactly the machines of an openb node list."""

from muster.fabric.layout import device_uuids
from muster.openb.trace import parse_nodes
from muster.schemas.facts.node import NodeJoined

GPUS_OF_A_PAIR, GPUS_OF_TWO_SOCKETS = 2, 4

Fleet = dict[str, NodeJoined]
"""Descriptions by node name, in the order in which the nodes join."""


def regular_fleet(
    *, nodes: int, gpus_per_node: int, gpu_model: str, cpu_milli: int, memory_mib: int, rack_size: int,
    racks_per_block: int, nvlink_size: int = 0, kubelet_picks: bool = False, share_milli: tuple[int, ...] | None = None,
    prefix: str = "gpu",
) -> Fleet:  # fmt: skip
    """`nodes` equal nodes `<prefix>-0001`, ... in racks of `rack_size` nodes and blocks of `racks_per_block` racks.

    nvlink_size: nodes of a rack that share an NVLink domain, 0 for none; it divides `rack_size`. kubelet_picks: the
    scheduler says how many GPUs of a node, and no more; then the node says nothing of where they stand.
    share_milli: in which parts they can be had; None: any.
    """
    fleet: Fleet = {}
    inside = () if kubelet_picks else device_domains(gpus_per_node)
    for index in range(nodes):
        name = f"{prefix}-{index + 1:04d}"
        rack = index // rack_size
        domains = [("block", f"b{rack // racks_per_block}"), ("rack", f"r{rack}")]
        if nvlink_size:
            domains.append(("nvlink", f"v{index // nvlink_size}"))
        fleet[name] = NodeJoined(
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            gpu_model=gpu_model if gpus_per_node else "",
            gpu_uuids=device_uuids(name, gpus_per_node),
            domains=tuple(domains),
            device_domains=inside,
            kubelet_picks=kubelet_picks,
            share_milli=share_milli,
        )
    return fleet


def openb_fleet(text: str, *, file: str) -> Fleet:
    """The machines of an openb node table, without topology: the trace says nothing of racks and sockets.

    Raises muster.openb.trace.OpenbFormatError.
    """
    return {
        node.name: NodeJoined(
            cpu_milli=node.cpu_milli,
            memory_mib=node.memory_mib,
            gpu_model=node.gpu_model,
            gpu_uuids=device_uuids(node.name, node.gpus),
        )
        for node in parse_nodes(text, file=file)
    }


def device_domains(gpus: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """A node's inside, as most servers are built: two sockets from four GPUs on, and pairs within each socket."""
    if gpus < GPUS_OF_A_PAIR:
        return ()
    sockets = tuple(2 * index // gpus for index in range(gpus)) if gpus >= GPUS_OF_TWO_SOCKETS else (0,) * gpus
    pairs: list[int] = []
    for socket in sorted(set(sockets)):
        first = pairs[-1] + 1 if pairs else 0
        pairs += [first + place // GPUS_OF_A_PAIR for place in range(sockets.count(socket))]
    pair = ("pair", tuple(pairs))
    return (("socket", sockets), pair) if gpus >= GPUS_OF_TWO_SOCKETS else (pair,)
