"""Pages of metrics and looks, as small as tests need them."""

from muster.core import Instant
from muster.guard.core.flow import Level
from muster.guard.core.look import ClientLists, FlowLook, Look, Pods, Replica, WorkloadSecrets
from muster.guard.core.pages import MIB, Page

NOW = Instant(1_000_000_000_000)
DEFAULT_LEVELS = (
    Level("exempt", 0),
    Level("catch-all", 5, borrowing=None),
    Level("leader-election", 10, borrowing=None),
    Level("global-default", 20, lendable=50, borrowing=None),
    Level("system", 30, lendable=33, borrowing=None),
    Level("node-high", 40, lendable=25, borrowing=None),
    Level("workload-high", 40, lendable=50, borrowing=None),
    Level("workload-low", 100, lendable=90, borrowing=None),
)
DEFAULT_SEATS = {
    "exempt": 0, "catch-all": 13, "leader-election": 25, "global-default": 49, "system": 74, "node-high": 98,
    "workload-high": 98, "workload-low": 245,
}  # fmt: skip


def page(mib: float = 300.0, **changes: object) -> Page:
    """Of an API server with Go's defaults."""
    fields = {
        "rss_bytes": mib * MIB, "gogc": 100, "heap_goal_bytes": mib * MIB * 0.8, "version": "v1.34.4",
        "started_at_s": 100.0, "seats": DEFAULT_SEATS,
    }  # fmt: skip
    return Page(**{**fields, **changes})  # type: ignore[arg-type]


def replica(name: str = "10.0.0.1:6443", mib: float = 300.0, **changes: object) -> Replica:
    """One that answered. Page fields are given by name."""
    return Replica(name, page=page(mib, **changes))


def look(*replicas: Replica, **changes: object) -> Look:
    """Everything can be seen, and nothing is wrong."""
    fields = {"levels": DEFAULT_LEVELS, "clients_from": "audit", "pods": Pods(pods=10)}
    return Look(NOW, replicas=replicas or (replica(),), **{**fields, **changes})  # type: ignore[arg-type]


def lister(per_minute: float, agent: str = "fleet-doctor/1.2", resource: str = "secrets") -> ClientLists:
    """A client and its rate."""
    return ClientLists(agent, "system:serviceaccount:ops:doctor", resource, per_minute, int(per_minute))


def workload(secrets: int, *, nodes: int = 5, pods: int = 10) -> WorkloadSecrets:
    """A workload with so many secrets."""
    return WorkloadSecrets("ml", "StatefulSet", "trainer", pods, nodes, secrets, secrets * nodes)


def flow(*, is_right: bool, found: tuple[int, int] | None = (2, 2), reason: str = "", shares: int = 1) -> FlowLook:
    """The level of secrets."""
    return FlowLook(
        "muster-list-secrets", "secrets", 2, found, shares=shares, ballast=54, total=300, is_right=is_right,
        reason=reason,
    )  # fmt: skip
