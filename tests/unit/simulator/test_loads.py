"""Long loads: who goes where, what is recorded, and what the report says of it."""

import csv
import io
import json

import pytest

from muster.agent.core.behaviour import Behaviour
from muster.core import after
from muster.openb.trace import OpenbNode, OpenbTask
from muster.simulator.engine import START
from muster.simulator.errors import InputError
from muster.simulator.load.page import page
from muster.simulator.load.play import Load, Played, play
from muster.simulator.load.policy import Assigner, default_policy, parse_policy
from muster.simulator.load.report import grouping, jain, jobs_csv, report_of
from muster.simulator.load.synthetic import synthetic_load
from muster.simulator.load.trace import arrivals, openb_nodes, qos_by_task

NODES = (OpenbNode("n0", 64_000, 262_144, 8, "V100"),)


def task(name: str, *, gpus: int = 1, at_s: float = 0.0, run_s: float = 100.0, share: int = 0) -> OpenbTask:
    return OpenbTask(name, 1000, 1024, 0 if share else gpus, share, (), False, at_s, at_s + run_s, at_s)


def played(tasks: list[OpenbTask], policy: str = "queues: [{name: q}]") -> Played:
    assigner = Assigner(parse_policy(policy), seed=1)
    came = arrivals(tasks, qos={}, assigner=assigner, start=START)
    until = after(START, 1e6)
    load = Load("test", openb_nodes(NODES), assigner.specs, came, until, Behaviour(start_s=0.0))
    return play(load)


def test_a_wait_is_from_coming_to_being_placed() -> None:
    report = report_of(played([task("a", gpus=8, run_s=3600), task("b", gpus=8, at_s=600)]), policy="p")
    (wait,) = report.by_queue
    assert (wait.of, wait.jobs, wait.waiting) == ("q", 2, 0)
    assert (wait.p50_s, wait.max_s) == (0.0, pytest.approx(3000, abs=2))
    assert report.ended == {"succeeded": 2}


def test_utilisation_is_gpu_time_held_over_gpu_time_there() -> None:
    report = report_of(played([task("a", gpus=4, run_s=3600)]), policy="p")
    assert report.used_gpu_h == pytest.approx(4.0, rel=0.01)
    assert report.utilisation_pct == pytest.approx(50, rel=0.02)
    assert (report.gpus, report.preemptions, report.lost_gpu_h) == (8, 0, 0)


def test_a_report_knows_how_it_stood_over_time() -> None:
    run = played([task("a", gpus=8, run_s=3600), task("b", gpus=2, at_s=7200, run_s=600)])
    points = report_of(run, policy="p").points
    assert max(point.allocated_pct for point in points) == 100
    assert points[-1].hours >= 2
    assert {point.held["q"] for point in points} >= {0.0, 8.0}


def test_the_files_hold_the_same() -> None:
    run = played([task("a"), task("b", share=500)])
    report = report_of(run, policy="p")
    rows = list(csv.DictReader(io.StringIO(jobs_csv([("p", run)]))))
    assert [(row["name"], row["queue"], row["gpus"], row["state"]) for row in rows] == [
        ("a", "q", "1", "succeeded"), ("b", "q", "0.5", "succeeded"),
    ]  # fmt: skip
    told = json.loads(json.dumps(report.to_json()))
    assert told["wait_by_size"][0] == {
        "size": "a share", "jobs": 1, "never_placed": 0, "mean_s": 0, "p50_s": 0, "p90_s": 0, "p99_s": 0, "max_s": 0,
    }  # fmt: skip


def test_the_page_needs_nothing_from_elsewhere_and_escapes_what_it_is_told() -> None:
    report = report_of(played([task("a")]), policy="<b>fair & square</b>")
    html = page([report, report], title="two")
    assert "<b>fair" not in html
    assert "&lt;b&gt;fair &amp; square" in html
    assert "http" not in html
    assert "<script" not in html
    assert html.count("<svg") == 6 + 2 + 1
    assert "prefers-color-scheme:dark" in html


def test_rules_send_tasks_to_queues() -> None:
    policy = parse_policy(
        """
        queues: [{name: online}, {name: big}, {name: rest}]
        assign:
          - {qos: LS, queue: online, preemptible: false}
          - {gpus_min: 8, queue: big, priority: 70, checkpoint_interval_s: 600}
          - {queue: rest, min_slice_s: 60}
        """
    )
    assigner = Assigner(policy, seed=1)
    online = assigner.spec(task("a"), "LS", name="a")
    big = assigner.spec(task("b", gpus=8), "BE", name="b")
    rest = assigner.spec(task("c"), "BE", name="c")
    assert (online.queue, online.preemptible) == ("online", False)
    assert (big.queue, big.priority, big.checkpointing is not None) == ("big", 70, True)
    assert (rest.queue, rest.min_slice_s, rest.left_out) == ("rest", 60, ())


def test_without_rules_the_quality_of_service_names_the_queue() -> None:
    qos = qos_by_task("name,qos\na,LS\nb,BE\n")
    assert qos == {"a": "LS", "b": "BE"}
    assigner = Assigner(default_policy(qos), seed=1)
    assert [assigner.spec(task(name), qos[name], name=name).queue for name in qos] == ["ls", "be"]


def test_without_rules_and_namesakes_tasks_are_spread_over_the_lowest_queues() -> None:
    assigner = Assigner(parse_policy("queues: [{name: org}, {name: a, parent: org}, {name: b, parent: org}]"), seed=1)
    queues = [assigner.spec(task(f"t{at}"), "LS", name="t").queue for at in range(50)]
    assert set(queues) == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("queues: []", "queues"),
        ("queues: [{name: a}]\nassign: [{queue: b}]", "assign[0].queue"),
        ("queues: [{name: a}]\nassign: [{queue: a, gpu_min: 1}]", "assign[0].gpu_min"),
    ],
)
def test_policies_that_cannot_be(text: str, field: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_policy(text)
    assert refused.value.field == field


def test_a_task_that_no_rule_fits_is_told() -> None:
    assigner = Assigner(parse_policy("queues: [{name: a}]\nassign: [{queue: a, gpus_min: 8}]"), seed=1)
    with pytest.raises(InputError, match="no rule fits task t"):
        assigner.spec(task("t"), "", name="t")


@pytest.mark.parametrize(("scale", "least", "most"), [(0.5, 60, 140), (1.0, 200, 200), (2.5, 460, 540)])
def test_scaling_copies_tasks(scale: float, least: int, most: int) -> None:
    tasks = [task(f"t{at}", at_s=at) for at in range(200)]
    assigner = Assigner(parse_policy("queues: [{name: q}]"), seed=1)
    came = arrivals(tasks, qos={}, assigner=assigner, start=START, scale=scale)
    assert least <= len(came) <= most
    assert len({one.id for _, one in came}) == len(came)
    assert [at for at, _ in came] == sorted(at for at, _ in came)


def test_charts_draw_many_queues_by_those_above_them() -> None:
    parents = {f"p{at}": f"team{at % 3}" for at in range(30)} | dict.fromkeys(("team0", "team1", "team2"), "org")
    run = played([task("a")])
    (track,) = run.recorder.tracks.values()
    tracks = [type(track)(f"j{at}", f"p{at}", 1000, 1, START, 0.0) for at in range(30)]
    assert set(grouping(parents, tracks).values()) == {"team0", "team1", "team2"}
    assert len(set(grouping({}, tracks).values())) == 8


def test_jains_index() -> None:
    assert jain([5, 5, 5]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([0, 0]) == 1


def test_a_synthetic_load_is_a_function_of_its_seed_and_asks_for_what_it_says() -> None:
    one, again, other = (synthetic_load(gpus=800, jobs=3000, days=2, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.arrivals != other.arrivals
    asked_h = sum(
        spec.gpu_milli_total / 1000 * float(spec.labels["sim.muster.dev/run-s"]) / 3600
        for spec in (job.spec for _, job in one.arrivals)
    )
    assert 0.6 < asked_h / (800 * 48) < 1.2


def test_a_day_of_a_small_fleet_keeps_its_books() -> None:
    run = play(synthetic_load(gpus=160, jobs=300, days=1, seed=3))
    recorder = run.recorder
    assert len(recorder.tracks) > 250
    assert recorder.live == sum(not track.ended for track in recorder.tracks.values())
    assert all(sum(sample.held.values()) <= sample.capacity for sample in recorder.samples[1:])
    assert all(milli >= 0 for sample in recorder.samples for milli in (*sample.held.values(), *sample.waiting.values()))
