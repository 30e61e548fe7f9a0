"""What the Cluster Autoscaler wants, folded from the agent's facts."""

from kit.log import a_fact
from muster.core import Fact, Instant
from muster.scaler.core.autoscaler import NodeRefused, NodeUnneeded, NodeWanted, RemovalBlocked, SignalBook
from muster.schemas.facts.scale import AutoscalerSignal


def heard(
    name: str, subject: str, *, at: int = 1, jobs: tuple[str, ...] = (), reason: str = ""
) -> tuple[Fact, AutoscalerSignal]:
    signal = AutoscalerSignal(jobs=jobs, reason=reason)
    return a_fact("agent", "autoscaler", subject, name, signal, seq=at), signal


def test_a_wanted_node_is_wanted_for_each_of_its_jobs_until_it_is_settled() -> None:
    book = SignalBook()
    book.fold(*heard("node-wanted", "cdi", jobs=("A", "B")))
    assert book.of_job("B") == NodeWanted(("A", "B"), "cdi", 1, "f1")
    book.fold(*heard("settled", "cdi", at=2))
    assert book.of_job("B") is None


def test_of_one_group_some_jobs_are_refused_a_node_and_others_not() -> None:
    book = SignalBook()
    book.fold(*heard("node-wanted", "cdi", jobs=("A", "B")))
    book.fold(*heard("node-refused", "cdi", at=2, jobs=("B",), reason="at its limit"))
    assert book.of_job("A") == NodeWanted(("A",), "cdi", 1, "f1")
    assert book.of_job("B") == NodeRefused(("B",), "cdi", "at its limit", "f2")


def test_a_wanted_node_of_any_group_comes_before_one_that_another_group_refused() -> None:
    book = SignalBook()
    book.fold(*heard("node-wanted", "cdi", jobs=("A",)))
    book.fold(*heard("node-refused", "plain", at=2, jobs=("A",)))
    assert isinstance(book.of_job("A"), NodeWanted)


def test_a_node_is_unneeded_since_it_was_first_said_and_blocked_instead_once_that_is_said() -> None:
    book = SignalBook()
    book.fold(*heard("node-unneeded", "cdi-0001", at=1))
    book.fold(*heard("node-unneeded", "cdi-0001", at=5))
    assert list(book.of_nodes()) == [NodeUnneeded("cdi-0001", Instant(1), "f5")]
    book.fold(*heard("removal-blocked", "cdi-0001", at=7, jobs=("A",), reason="a pod may not move"))
    assert list(book.of_nodes()) == [RemovalBlocked("cdi-0001", Instant(7), "a pod may not move", ("A",), "f7")]
    book.forget_node("cdi-0001")
    assert not list(book.of_nodes())


def test_what_was_heard_survives_a_checkpoint() -> None:
    book, again = SignalBook(), SignalBook()
    book.fold(*heard("node-wanted", "cdi", jobs=("A",)))
    book.fold(*heard("node-unneeded", "cdi-0001", at=3))
    again.load(book.heard.values())
    assert again == book
    assert again.of_job("A") == book.of_job("A")
