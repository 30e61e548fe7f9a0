"""How many nodes a limit means."""


def nodes_of(share: str, selected: int) -> int:
    """Nodes that may be out of use: `share` is a number, or a part of `selected` like "5%", at least one node."""
    if share.endswith("%"):
        return max(1, selected * int(share[:-1]) // 100)
    return int(share)
