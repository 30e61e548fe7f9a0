"""What is told of clusters of the federation."""

import pytest

from kit.log import a_fact
from muster.core import Fact
from muster.notifier.catalogue import CLUSTER_CHANGED, event_of
from muster.notifier.events import EventSource
from muster.schemas.facts.federation import ClusterMoved


def fact(name: str, **moved: object) -> Fact:
    payload = ClusterMoved.model_validate(moved)
    return a_fact("federation", "cluster", "east", name, payload, time=10**18, cluster="")


@pytest.mark.parametrize(
    ("name", "title", "mood"),
    [
        ("draining", "Cluster east is being drained", "plain"),
        ("drained", "Cluster east is drained", "plain"),
        ("resumed", "Cluster east gets jobs again", "good"),
        ("lost", "Cluster east is given up", "bad"),
        ("returned", "Cluster east is back", "good"),
    ],
)
def test_each_move_of_a_cluster_has_its_words(name: str, title: str, mood: str) -> None:
    moved = fact(name, principal="root", reason="old racks", to=("west",), jobs=12)
    assert event_of(["cluster-changed"], moved) is CLUSTER_CHANGED
    words = CLUSTER_CHANGED.chat(EventSource(moved, dashboard_url="https://muster.example"))
    assert (words.title, words.mood, words.text) == (title, mood, "old racks")
    assert words.lines == (("Jobs there", "12"), ("Jobs go to", "west"), ("By", "root"))


def test_a_refused_drain_is_told_to_nobody() -> None:
    assert event_of(["cluster-changed"], fact("drain-refused")) is None


def test_a_receiver_is_sent_the_same_as_data() -> None:
    sent = CLUSTER_CHANGED.body(EventSource(fact("lost", jobs=3, reason="silent")))
    assert (sent.what, sent.cluster, sent.jobs, sent.url) == ("lost", "east", 3, "")
