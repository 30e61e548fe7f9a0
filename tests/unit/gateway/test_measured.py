"""A job's readings and output, put together from what nodes and pods sent."""

from muster.core.instant import NS_PER_S
from muster.gateway.readings import COLUMNS_MAX, fewer, job_readings, output_page
from muster.schemas.telemetry import DeviceSample, NodeSample, OutputLines

JOB = "A" * 26
OTHER = "B" * 26


def sample(node: str, second: float, *, load: float = 50.0, job: str = JOB) -> bytes:
    devices = tuple(
        DeviceSample(
            index=index,
            uuid=f"{node}-{index}",
            utilisation_pct=load,
            memory_used_mib=10,
            memory_total_mib=20,
            power_w=300.0,
            temperature_c=60.0,
            job_ids=(holder,),
        )
        for index, holder in enumerate((job, OTHER))
    )
    return NodeSample(node=node, at=round(second * NS_PER_S), devices=devices).model_dump_json().encode()


def test_each_device_that_the_job_held_has_one_reading_for_each_moment() -> None:
    found = job_readings(JOB, [sample("n1", 10.0, load=10.0), sample("n2", 10.4, load=20.0), sample("n1", 20.0)])
    assert found.at == (10 * NS_PER_S, 20 * NS_PER_S)
    assert found.devices == {
        "n1/0": ((10.0, 60.0, 10, 300.0), (50.0, 60.0, 10, 300.0)),
        "n2/0": ((20.0, 60.0, 10, 300.0), None),
    }


def test_other_jobs_devices_and_what_nobody_can_read_are_left_out() -> None:
    found = job_readings(JOB, [b"{", sample("n1", 1.0, job=OTHER), f'{{"node":"{JOB}"'.encode()])
    assert (found.at, found.devices) == ((), {})


def test_columns_stay_within_their_number_however_often_nodes_report() -> None:
    found = job_readings(JOB, [sample("n1", second / 10) for second in range(9_000)])
    assert COLUMNS_MAX // 2 < len(found.at) <= COLUMNS_MAX
    assert len(found.devices["n1/0"]) == len(found.at)


def test_the_newest_lines_come_oldest_first() -> None:
    def printed(at: int, *lines: str) -> bytes:
        return OutputLines(job_id=JOB, attempt=2, at=at, replica=at, lines=lines).model_dump_json().encode()

    page = output_page(JOB, [printed(1, "one", "two"), b"nothing", printed(2, "three")], lines=2)
    assert [(line.at, line.replica, line.attempt, line.text) for line in page.lines] == [
        (1, 1, 2, "two"),
        (2, 2, 2, "three"),
    ]


def test_of_too_many_nodes_the_first_are_read() -> None:
    names = [f"n{number}" for number in range(10)]
    assert fewer(names, found=200, most=100) == names[:5]
    assert fewer(names, found=10**9, most=100) == names[:1]
