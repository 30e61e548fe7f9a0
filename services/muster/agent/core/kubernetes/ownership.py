"""Reserve nodes with devices for Muster: a taint keeps other pods away, a list informs the admission policies.

The leader keeps both. A node is tainted before it is listed, so the list has the finished ones; listed nodes that are
no longer Muster's are released. So a new leader reads one object instead of every node.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.calls import Done, Kind, Merge, Outcome, Read, Refused
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Instant, after
from muster.kube.objects import JsonObject, objects, strings, text, version_of

LIST_NAME = "muster-own-nodes"
"""ConfigMap in Muster's own namespace: driver by node."""
LOOK_AGAIN_S = 300.0
"""Before a refused change is tried again: permissions and policies may be installed later."""
NODES_AT_ONCE = 500
"""Nodes tainted at a time, and in one change of the list."""
_NEVER = Instant(0)


@dataclass(frozen=True, slots=True)
class ChangeOwn(Purpose):
    """Read a node, then change its taints; node "" reads or changes the list."""

    node: str = ""
    is_read: bool = field(default=False, compare=False)


@dataclass(slots=True, eq=False)
class OwnNodes:
    """Keeps the taints and the list in `namespace`."""

    worklist: Worklist
    driver: str
    namespace: str = "muster"
    refused: dict[str, str] = field(default_factory=dict)
    """Messages of refused changes by node ("" for the list); they are tried again later."""
    _wanted: frozenset[str] = frozenset()
    _tainted: set[str] = field(default_factory=set)  # known to have the taint
    _listed: frozenset[str] | None = None  # None: not read yet
    _again_at: Instant = _NEVER
    _is_due: bool = False  # something changed since the last look

    def __post_init__(self) -> None:
        self.worklist.serve(self, ChangeOwn)

    def want(self, nodes: Iterable[str]) -> None:
        """Reserve exactly these nodes."""
        wanted = frozenset(nodes)
        self._is_due = self._is_due or wanted != self._wanted
        self._wanted = wanted

    @property
    def wanted(self) -> frozenset[str]:
        """Return the nodes to reserve."""
        return self._wanted

    def settle(self, now: Instant) -> None:
        """Make the missing changes."""
        if self.refused and now >= self._again_at:
            self.refused.clear()
            self._is_due = True
        if not self._is_due:
            return
        self._is_due = False
        if self._listed is None:
            if "" not in self.refused and self._wanted:
                self.worklist.ask(ChangeOwn(), Read(Kind.CONFIG_MAPS, self.namespace, LIST_NAME))
            return
        for node in sorted((self._wanted ^ self._tainted) - self.refused.keys())[:NODES_AT_ONCE]:
            self.worklist.ask(ChangeOwn(node), Read(Kind.NODES, "", node))
        self._list()

    def next_change(self) -> Instant | None:
        """Return when `settle` could do more by time alone."""
        return self._again_at if self.refused else None

    def clear(self) -> None:
        """Forget everything, because another process leads."""
        self.refused.clear()
        self._tainted.clear()
        self._wanted, self._listed, self._is_due = frozenset(), None, False

    def _list(self) -> None:
        """List exactly the tainted nodes."""
        listed = self._listed or frozenset()
        if "" in self.refused or listed == self._tainted:
            return
        change: JsonObject = {
            node: self.driver if node in self._tainted else None
            for node in sorted(listed ^ self._tainted)[:NODES_AT_ONCE]
        }
        call = Merge(Kind.CONFIG_MAPS, self.namespace, LIST_NAME, {"data": change})
        self.worklist.ask(ChangeOwn(), call)

    def answered(self, purpose: ChangeOwn, outcome: Outcome, now: Instant) -> None:
        """Continue after a call."""
        match purpose:
            case ChangeOwn(""):
                self._was_listed(outcome, now)
            case ChangeOwn(node, is_read=False):
                self._was_read(node, outcome, now)
            case ChangeOwn(node):
                self._was_tainted(node, outcome, now)

    def _was_listed(self, outcome: Outcome, now: Instant) -> None:
        self._is_due = True
        if isinstance(outcome, Done):
            is_first = self._listed is None
            self._listed = frozenset(strings(dict(outcome.reply), "data"))
            if is_first:
                self._tainted |= self._listed
        else:
            self._listed = self._listed or frozenset()
            self._was_refused("", outcome, now)

    def _was_read(self, node: str, outcome: Outcome, now: Instant) -> None:
        patch = taint_patch(dict(outcome.reply), wanted=node in self._wanted) if isinstance(outcome, Done) else None
        if patch is None:
            self._was_tainted(node, outcome, now)
            return
        call = Merge(Kind.NODES, "", node, patch)
        self.worklist.ask(ChangeOwn(node, is_read=True), call)

    def _was_tainted(self, node: str, outcome: Outcome, now: Instant) -> None:
        self._is_due = True
        if isinstance(outcome, Refused) and outcome.code == 404:
            self._tainted.discard(node)
        elif not isinstance(outcome, Done):
            self._was_refused(node, outcome, now)
        elif any(text(taint, "key") == names.OWN_TAINT for taint in objects(dict(outcome.reply), "spec", "taints")):
            self._tainted.add(node)
        else:
            self._tainted.discard(node)

    def _was_refused(self, what: str, outcome: Outcome, now: Instant) -> None:
        if isinstance(outcome, Refused) and outcome.reason != "Conflict":  # after a conflict it is read again at once
            self.refused[what] = outcome.message or outcome.reason
            self._again_at = after(now, LOOK_AGAIN_S)


def taint_patch(node: JsonObject, *, wanted: bool) -> JsonObject | None:
    """Return a merge patch that adds or removes the taint at the version that was read; None if nothing changes."""
    now = objects(node, "spec", "taints")
    others = [taint for taint in now if text(taint, "key") != names.OWN_TAINT]
    if wanted == (len(others) < len(now)):
        return None
    ours: JsonObject = {"key": names.OWN_TAINT, "effect": "NoSchedule"}
    taints = [*others, ours] if wanted else others
    return {"metadata": {"resourceVersion": version_of(node)}, "spec": {"taints": taints or None}}
