"""Three ways to use GPUs: the same work for each, and honest books of what it cost."""

from xml.etree import ElementTree as ET

import pytest

from kit.log import a_fact
from muster.core import Instant, after
from muster.openb.trace import OpenbTask
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobPlaced, JobRouted, JobRunning
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import JobSpec, TaskGroup
from muster.simulator.engine import START
from muster.simulator.errors import InputError
from muster.simulator.load.trace import job_of
from muster_tools.bench.ways.load import Amount, Work, work_of
from muster_tools.bench.ways.meter import Meter, Power
from muster_tools.bench.ways.report import assumptions, chart, to_json
from muster_tools.bench.ways.run import Result, Way, play_way

AMOUNT = Amount(gpus=16, load=0.6, copies=1.0, seed=1)


def task(number: int, *, gpus: int = 1, share: int = 0, run_s: float = 1800.0) -> OpenbTask:
    at_s = 600.0 * number
    return OpenbTask(
        f"t{number}", 4000, 16_384, 0 if share else gpus, share, (), False, at_s, at_s + run_s, at_s
    )  # fmt: skip


TASKS = [task(number, share=300 if number % 2 else 0, gpus=1 + number % 3) for number in range(60)]


@pytest.fixture(scope="module")
def work() -> Work:
    return work_of(TASKS, AMOUNT)


@pytest.fixture(scope="module")
def results(work: Work) -> dict[Way, Result]:
    return {way: play_way(way, work, gpus=AMOUNT.gpus, seed=1) for way in Way}


def test_every_way_has_the_same_jobs_at_the_same_moments_and_only_split_shares_gpus(work: Work) -> None:
    assert [(at, job.id) for at, job in work.split] == [(at, job.id) for at, job in work.whole]
    pairs = zip(work.split, work.whole, strict=True)
    groups = [(one.spec.task_groups[0], two.spec.task_groups[0]) for (_, one), (_, two) in pairs]
    assert {(shared.gpu_milli, whole.gpu_milli, whole.gpus) for shared, whole in groups if shared.gpu_milli} == {
        (300, 0, 1)
    }


def test_the_load_is_what_whole_gpus_would_ask_while_jobs_come(work: Work) -> None:
    asked_s = sum(
        job.spec.task_groups[0].gpus * float(job.spec.labels["sim.muster.dev/run-s"]) for _, job in work.whole
    )
    came_s = (work.whole[-1][0] - START) / 1e9
    assert asked_s / (AMOUNT.gpus * came_s) == pytest.approx(AMOUNT.load, rel=1e-6)


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        work_of([task(0, gpus=0), task(1, gpus=0)], AMOUNT)


def test_every_way_does_the_work_and_only_what_it_may(results: dict[Way, Result]) -> None:
    split, nodes, devices = (results[way] for way in Way)
    assert {result.jobs for result in results.values()} == {60}
    assert {result.unplaced for result in results.values()} == {0}
    assert (split.attached, split.nodes_added, nodes.attached) == (0, 0, 0)
    assert nodes.nodes_added
    assert devices.attached
    assert split.gpus_on_mean == 16
    assert all(0 < result.gpu_share_on <= 1 for result in results.values())
    assert devices.gpu_share_on > split.gpu_share_on
    assert max(point.gpus for point in devices.points) <= 16


def test_two_runs_are_equal(work: Work, results: dict[Way, Result]) -> None:
    assert play_way(Way.DEVICES, work, gpus=AMOUNT.gpus, seed=1) == results[Way.DEVICES]


def test_the_chart_is_one_svg_file_and_the_numbers_are_json(work: Work, results: dict[Way, Result]) -> None:
    root = ET.fromstring(chart(list(results.values())))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 4
    assert to_json(results[Way.DEVICES])["attachments"] == results[Way.DEVICES].attached
    assert {way.value for way in Way} <= set(assumptions(work, AMOUNT))


POWER = Power(
    host_idle_w=100.0, host_busy_w=200.0, host_cpu_milli=10_000, gpu_idle_w=10.0, gpu_busy_w=110.0, pool_gpu_w=5.0
)  # fmt: skip
SPEC = JobSpec(name="j", team="q", task_groups=(TaskGroup(gpus=1, cpu_milli=5_000, memory_mib=1),))
JOB = job_of(SPEC, START, key="j")


class Books:
    """A meter that is told facts, seconds after the start. The job asks half a GPU, in truth."""

    def __init__(self, *, gpus_per_host: int = 0, ends_s: float = 100.0) -> None:
        self.meter = Meter(POWER, 4, {JOB.id: 500}, START, after(START, ends_s), gpus_per_host=gpus_per_host)
        self._seq = 0

    def say(self, at_s: float, kind: str, subject: str, name: str, payload: Payload) -> None:
        self._seq += 1
        self.meter.watch(a_fact("w", kind, subject, name, payload, seq=self._seq, time=after(START, at_s)))

    def job(self, at_s: float, name: str, payload: Payload) -> None:
        self.say(at_s, "job", JOB.id, name, payload)

    def closed(self) -> Meter:
        self.meter.close()
        return self.meter


def plain(gpus: int, machine: str = "") -> NodeJoined:
    uuids = tuple(f"g{index}" for index in range(gpus))
    return NodeJoined(cpu_milli=10_000, memory_mib=1, gpu_model="G" if gpus else "", gpu_uuids=uuids, machine=machine)


def test_a_host_and_its_gpus_draw_by_what_is_asked_of_them() -> None:
    books = Books()
    books.say(0, "node", "n", "joined", plain(4))
    books.job(0, "routed", JobRouted(job=JOB, cluster="c"))
    books.job(10, "placed", JobPlaced(attempt=1, slots=()))
    books.job(60, "succeeded", JobRunning(attempt=1))
    meter = books.closed()
    idle = 100 * (100 + 4 * 10)
    assert meter.joules == pytest.approx(idle + 50 * (0.5 * 100 + 0.5 * 100))
    assert (meter.on_gpu_s, meter.asked_gpu_s, meter.pool_joules) == (400, 25, 0)


def test_a_host_draws_from_the_decision_to_add_it_until_it_left() -> None:
    books = Books(gpus_per_host=4)
    books.say(10, "scale", "s1", "node-add-chosen", ScaleChosen(case=1, node="n", group="g"))
    books.say(40, "node", "n", "joined", plain(4))
    books.say(70, "node", "n", "left", JobRunning(attempt=1))
    meter = books.closed()
    assert meter.on_host_s == 60
    assert meter.on_gpu_s == 240
    assert meter.pool_joules == pytest.approx(40 * 4 * 5)
    assert (meter.nodes_added, meter.nodes_removed) == (1, 1)


def test_a_composable_gpu_draws_from_the_call_that_attaches_it_until_it_is_detached() -> None:
    books = Books()
    books.say(0, "node", "n", "joined", plain(0, machine="m"))
    for at_s, name in ((20, "attaching"), (25, "attaching"), (30, "attached"), (80, "detaching"), (90, "detached")):
        books.say(at_s, "attachment", "a", name, JobRunning(attempt=1))
    books.say(40, "node", "n", "joined", plain(1, machine="m"))
    meter = books.closed()
    assert meter.on_gpu_s == 70
    assert (meter.attached, meter.detached) == (1, 1)


def test_nothing_counts_after_the_end() -> None:
    books = Books(ends_s=50)
    books.say(0, "node", "n", "joined", plain(1))
    books.say(200, "node", "n", "left", JobRunning(attempt=1))
    assert books.closed().on_host_s == 50
    assert books.meter.points[-1].hours == pytest.approx(50 / 3600)
    assert Instant(0) < books.meter.ends_at
