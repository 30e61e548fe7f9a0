"""The live view's numbers."""

import io

from rich.console import Console

from muster.cli.tables import node_state
from muster.cli.watching import Fleet, Snapshot, bar, facts_per_s, fleet_of, plain, screen
from muster.schemas.job import Phase
from muster.schemas.views import FactView, JobView, NodeView, QueueView

S = 1_000_000_000


def node(**fields: object) -> NodeView:
    return NodeView.model_validate({"name": "n", "cluster": "c", "gpus": 8, "usable": True, **fields})


def fact(seq: int, at_s: float) -> FactView:
    return FactView(
        id="i",
        seq=seq,
        time=int(at_s * S),
        stream="LOG_c",
        cluster="c",
        writer="w",
        kind="job",
        subject_id="j",
        name="n",
    )


def looked() -> Snapshot:
    queues = (QueueView(name="a", cluster="c", gpu_milli_held=4000, jobs_queued=2, jobs_running=3),)
    return Snapshot(now_ns=20 * S, fleet=Fleet(2, 1, 8000), queues=queues, jobs=(), facts_per_s=12.0)


def test_only_usable_nodes_count_as_gpus() -> None:
    assert fleet_of([node(), node(usable=False)]) == Fleet(2, 1, 8000)


def test_the_plain_line_says_what_is_used_and_what_waits() -> None:
    assert plain(looked()) == "gpus 4/8  running 3  waiting 2  nodes 1/2  placed 0.0/s  facts 12/s"


def test_what_is_held_below_a_queue_is_counted_once() -> None:
    queues = (
        QueueView(name="org", cluster="c", gpu_milli_held=4000),
        QueueView(name="team", cluster="c", parent="org", gpu_milli_held=4000),
    )
    assert Snapshot(now_ns=0, fleet=Fleet(1, 1, 8000), queues=queues, jobs=(), facts_per_s=0).gpu_milli_held == 4000


def test_placements_of_the_last_seconds_make_the_rate() -> None:
    job = JobView(id="1", name="n", team="t", principal="p", queue="q", phase=Phase.PLACED)
    jobs = tuple(job.model_copy(update={"placed_at": at * S}) for at in (19, 15, 5, 0))
    seen = Snapshot(now_ns=20 * S, fleet=Fleet(0, 0, 0), queues=(), jobs=jobs, facts_per_s=0.0)
    assert seen.placed_per_s == 0.2


def test_facts_per_second_come_from_sequences_and_broker_times() -> None:
    assert facts_per_s(fact(10, 1), fact(60, 2)) == 50.0
    assert facts_per_s(None, fact(60, 2)) == 0.0
    assert facts_per_s(fact(60, 2), fact(60, 2)) == 0.0


def test_a_bar_is_never_longer_than_its_width() -> None:
    assert [len(bar(share, 10)) for share in (-1, 0, 0.5, 1, 7)] == [10] * 5
    assert bar(0.5, 10) == "█████░░░░░"


def test_the_screen_holds_the_queues() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(screen(looked(), rows=20, note="Ctrl-C stops"))
    text = console.export_text()
    assert "QUEUE" in text
    assert "Ctrl-C stops" in text


def test_node_states_are_sinfos() -> None:
    assert node_state(node()) == "idle"
    assert node_state(node(gpu_milli_held=4000)) == "mix"
    assert node_state(node(gpu_milli_held=8000)) == "alloc"
    assert node_state(node(usable=False)) == "drain"
    assert node_state(node(lost=True, usable=False)) == "down"
