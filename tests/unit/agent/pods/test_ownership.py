"""Nodes with devices are tainted, then listed for the admission policies; others are set free."""

from collections.abc import Iterable

from muster.agent.core.kubernetes.calls import Call, Done, Kind, Merge, Outcome, Read, Refused
from muster.agent.core.kubernetes.ownership import LOOK_AGAIN_S, OwnNodes, taint_patch
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant, after
from muster.kube.objects import JsonObject, objects, strings, text

NOW = Instant(1)
OURS = {"key": "muster.dev/own", "effect": "NoSchedule"}
OTHER = {"key": "example.com/x", "effect": "NoSchedule"}


class Cluster:
    """Nodes and the list, as an API server has them."""

    def __init__(self, *nodes: str, has_list: bool = True) -> None:
        self.taints: dict[str, list[JsonObject]] = {node: [] for node in nodes}
        self.data: dict[str, str] | None = {} if has_list else None
        self.calls: list[Call] = []
        self.forbidden = False

    def make(self, call: Call) -> Outcome:
        self.calls.append(call)
        assert isinstance(call, Read | Merge)
        if self.forbidden and isinstance(call, Merge):
            return Refused(403, "Forbidden", "no")
        if call.kind is Kind.CONFIG_MAPS:
            if self.data is None:
                return Refused(404, "NotFound", "there is no such list")
            if isinstance(call, Merge):
                changed = {**self.data, **call.body["data"]}  # type: ignore[dict-item]
                self.data = {key: value for key, value in changed.items() if value is not None}
            return Done({"data": dict(self.data)})
        if call.name not in self.taints:
            return Refused(404, "NotFound")
        if isinstance(call, Merge):
            self.taints[call.name] = objects(call.body, "spec", "taints")
        return Done({"metadata": {"resourceVersion": "7"}, "spec": {"taints": self.taints[call.name]}})


def settle(own: OwnNodes, cluster: Cluster, nodes: Iterable[str], now: Instant = NOW) -> None:
    own.want(nodes)
    for _ in range(10):
        own.settle(now)
        while (task := own.worklist.take(now)) is not None:
            own.worklist.finished(task, cluster.make(task.call), now)


def owner() -> OwnNodes:
    return OwnNodes(Worklist(), "gpu.nvidia.com")


def test_nodes_are_tainted_and_listed_with_their_driver() -> None:
    cluster = Cluster("a", "b", "c")
    settle(owner(), cluster, ("a", "b"))
    assert cluster.data == {"a": "gpu.nvidia.com", "b": "gpu.nvidia.com"}
    assert [len(taints) for taints in cluster.taints.values()] == [1, 1, 0]


def test_a_node_is_tainted_before_it_is_listed() -> None:
    cluster = Cluster("a")
    settle(owner(), cluster, ("a",))
    kinds = [call.kind for call in cluster.calls if isinstance(call, Merge)]
    assert kinds == [Kind.NODES, Kind.CONFIG_MAPS]


def test_taints_of_others_stay() -> None:
    cluster = Cluster("a")
    cluster.taints["a"] = [dict(OTHER)]
    own = owner()
    settle(own, cluster, ("a",))
    assert cluster.taints["a"] == [OTHER, OURS]
    settle(own, cluster, ())
    assert (cluster.taints["a"], cluster.data) == ([OTHER], {})


def test_a_new_leader_asks_about_the_list_alone() -> None:
    cluster = Cluster("a", "b")
    settle(owner(), cluster, ("a", "b"))
    cluster.calls.clear()
    settle(owner(), cluster, ("a", "b"))
    assert len(cluster.calls) == 1


def test_what_was_done_is_not_done_again() -> None:
    cluster, own = Cluster("a"), owner()
    settle(own, cluster, ("a",))
    cluster.calls.clear()
    settle(own, cluster, ("a",))
    assert cluster.calls == []


def test_a_node_that_is_gone_leaves_the_list() -> None:
    cluster, own = Cluster("a", "b"), owner()
    settle(own, cluster, ("a", "b"))
    del cluster.taints["a"]
    settle(own, cluster, ("b",))
    assert cluster.data == {"b": "gpu.nvidia.com"}


def test_without_a_list_nodes_are_tainted_all_the_same() -> None:
    cluster, own = Cluster("a", has_list=False), owner()
    settle(own, cluster, ("a",))
    assert cluster.taints["a"] == [OURS]
    assert own.refused == {"": "there is no such list"}
    cluster.data = {}
    settle(own, cluster, ("a",), after(NOW, LOOK_AGAIN_S))
    assert (cluster.data, own.refused) == ({"a": "gpu.nvidia.com"}, {})


def test_what_is_forbidden_is_not_asked_over_and_over() -> None:
    cluster, own = Cluster("a"), owner()
    cluster.forbidden = True
    settle(own, cluster, ("a",))
    assert own.refused["a"] == "no"
    assert len(cluster.calls) == 3


def test_nothing_is_asked_where_no_node_has_devices() -> None:
    cluster = Cluster("a")
    settle(owner(), cluster, ())
    assert cluster.calls == []


def test_a_patch_names_the_version_that_was_read() -> None:
    patch = taint_patch({"metadata": {"resourceVersion": "7"}, "spec": {}}, wanted=True)
    assert text(patch, "metadata", "resourceVersion") == "7"
    assert taint_patch({"spec": {"taints": [OURS]}}, wanted=True) is None
    assert strings(patch, "spec") == {}
