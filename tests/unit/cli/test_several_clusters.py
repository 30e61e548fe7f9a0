"""Tables name the cluster of a row where there is more than one."""

from muster.cli import tables
from muster.schemas.views import NodeView

HEADINGS = ("NODE", "GPUS")


def node(name: str, cluster: str) -> NodeView:
    return NodeView(name=name, cluster=cluster)


def test_one_cluster_needs_no_name() -> None:
    nodes = [node("a", "east"), node("b", "east")]
    headings, rows = tables.by_cluster(HEADINGS, [("a", "8"), ("b", "8")], nodes)
    assert headings == HEADINGS
    assert list(rows) == [("a", "8"), ("b", "8")]


def test_of_several_each_row_names_its_own_and_what_has_none_says_so() -> None:
    nodes = [node("a", "east"), node("b", "west"), node("c", "")]
    headings, rows = tables.by_cluster(HEADINGS, [("a", "8"), ("b", "8"), ("c", "8")], nodes)
    assert headings == ("CLUSTER", *HEADINGS)
    assert [row[0] for row in rows] == ["east", "west", "-"]
