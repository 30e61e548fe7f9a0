"""How far back a job's output is looked for, and who may read it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import httpx
import pytest

from kit.clocks import FakeTime
from kit.http.gateway import FakeHarness
from muster.core.instant import NS_PER_S
from muster.gateway.http import make_app
from muster.gateway.live import Live
from muster.gateway.readings import OUTPUT_MESSAGES_MAX, Readings, Recent
from muster.schemas.job import Phase
from muster.schemas.live import OutputPage
from muster.schemas.telemetry import OutputLines
from muster.schemas.views import JobView

JOB = "A" * 26
RUNNING = JobView(id=JOB, name="a", team="blue", principal="p", queue="q", phase=Phase.RUNNING, cluster="atlas")


@dataclass
class FakeStream:
    """Messages at these moments, seconds before now."""

    ages_s: Sequence[float]
    time: FakeTime
    asked_s: list[float] = field(default_factory=list)

    async def since(self, stream: str, subjects: Sequence[str], *, since_ns: int, messages_max: int) -> Recent:
        assert (stream, list(subjects)) == ("LOGS_atlas", [f"logs.atlas.{JOB}"])
        window_s = (self.time.wall_ns - since_ns) / NS_PER_S
        self.asked_s.append(window_s)
        found = [age for age in self.ages_s if age <= window_s]
        if len(found) > messages_max:
            return Recent(len(found))
        return Recent(len(found), tuple(map(printed, found)))


def printed(age_s: float) -> bytes:
    return OutputLines(job_id=JOB, attempt=1, at=1, lines=(f"{age_s:g}",)).model_dump_json().encode()


def looked(ages_s: Sequence[float]) -> tuple[FakeStream, Readings]:
    time = FakeTime(wall_ns=100_000 * NS_PER_S)
    stream = FakeStream(sorted(ages_s, reverse=True), time)
    return stream, Readings(stream, ("atlas",), time)  # type: ignore[arg-type]


async def test_a_job_that_prints_often_is_read_a_short_way_back() -> None:
    stream, readings = looked(range(3_600))
    page = await readings.output(RUNNING, lines=50)
    assert [line.text for line in page.lines] == [str(age) for age in range(49, -1, -1)]
    assert max(stream.asked_s) == 120


async def test_a_job_that_prints_seldom_is_read_as_far_back_as_is_kept() -> None:
    stream, readings = looked([3_000, 2_000, 100])
    assert [line.text for line in (await readings.output(RUNNING, lines=50)).lines] == ["3000", "2000", "100"]
    assert stream.asked_s == [120, 3_600]


async def test_of_more_than_can_be_read_the_newest_is() -> None:
    often = [number / 1_000 for number in range(12 * OUTPUT_MESSAGES_MAX)]
    _, readings = looked(often)
    page = await readings.output(RUNNING, lines=3)
    assert [line.text for line in page.lines] == ["0.002", "0.001", "0"]


async def test_the_output_of_another_clusters_job_is_not_looked_for() -> None:
    stream, readings = looked([1])
    elsewhere = RUNNING.model_copy(update={"cluster": "other"})
    assert (await readings.output(elsewhere, lines=3)).lines == ()
    assert stream.asked_s == []


@pytest.mark.parametrize(("token", "status"), [("eve", 403), ("bob", 403), ("ann", 200), ("olga", 200)])
async def test_what_a_job_prints_is_for_who_acts_for_its_team(token: str, status: int) -> None:
    _, readings = looked([1])
    harness = FakeHarness()
    harness.view.rows[JOB] = RUNNING
    app = make_app(replace(harness.harness, live=Live(None, None, readings)))  # type: ignore[arg-type]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://muster", headers={"Authorization": f"Bearer {token}"}
    ) as client:
        answer = await client.get(f"/v1/jobs/{JOB}/output?lines=5")
        refused = await client.get(f"/v1/jobs/{JOB}/output?lines=0")
    assert answer.status_code == status
    assert refused.status_code == 422
    if status == 200:
        assert [line.text for line in OutputPage.model_validate_json(answer.content).lines] == ["1"]
