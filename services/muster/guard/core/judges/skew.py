"""`memory-skew`: one API server holds far more than another, because connections stay where they are."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.look import Look, Replica

CODE = "memory-skew"
_TWO = 2
_ADVISED_CHANCE = 0.001


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:
    """Largest over smallest resident memory; None with fewer than two API servers to compare."""
    up = sorted(look.up, key=lambda replica: (replica.memory_mib, replica.name))
    if len(up) < _TWO:
        return None if len(look.replicas) >= _TWO else []
    least, most = up[0], up[-1]
    ratio = skew_of(look)
    if most.memory_mib - least.memory_mib < config.skew_floor_mib:
        return []
    return [
        finding(
            code=CODE,
            degree=ratio / config.skew_ratio,
            detail=f"{_said(most)}, {_said(least)}: {ratio:.1f} times as much",
            cure=_cure(look),
            figures=(
                ("ratio", ratio),
                ("most_mib", most.memory_mib),
                ("least_mib", least.memory_mib),
                ("most_watches", float(_watches(most))),
                ("least_watches", float(_watches(least))),
            ),
        )
    ]


def skew_of(look: Look) -> float:
    """Largest memory of an API server over the smallest; 1 for a single one."""
    found = [replica.memory_mib for replica in look.up if replica.memory_mib > 0]
    return max(found) / min(found) if found else 1.0


def _cure(look: Look) -> str:
    chance = look.pods.goaway_chance if look.pods else None
    ours = (
        "it moves HTTP/2 clients alone; Python clients (HTTP/1.1) have to renew their connections themselves, as "
        "Muster's do; a restart of the fullest API server evens out for a while"
    )
    if chance:
        return f"--goaway-chance is {chance:g}: {ours}"
    return f"start API servers behind a load balancer with --goaway-chance={_ADVISED_CHANCE:g}: {ours}"


def _watches(replica: Replica) -> int:
    return sum(replica.page.watches.values()) if replica.page else 0


def _said(replica: Replica) -> str:
    return f"{replica.name} has {replica.memory_mib:.0f} MiB and {_watches(replica)} watches"
