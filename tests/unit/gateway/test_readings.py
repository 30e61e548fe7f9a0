"""How far back a job's output is looked for, what follows a cursor, who may read it, and the names of a job's pods."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
import pytest

from kit.clocks import FakeTime
from kit.http.gateway import FakeHarness
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.core.instant import NS_PER_S
from muster.gateway.http import make_app
from muster.gateway.live import Live
from muster.gateway.readings import OUTPUT_MESSAGES_MAX, Readings, Recent
from muster.schemas.apiserver import ClusterView
from muster.schemas.job import Phase, Slot
from muster.schemas.live import OutputPage
from muster.schemas.pods import JobPods
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
    messages: Sequence[bytes] = ()
    """Messages after a cursor, from sequence 1."""

    async def after(self, stream: str, subjects: Sequence[str], *, seq: int, wait_s: float) -> Recent:
        assert (stream, list(subjects)) == ("LOGS_atlas", [f"logs.atlas.{JOB}"])
        self.asked_s.append(wait_s)
        found = self.messages[seq:]
        return Recent(len(found), tuple(found), tuple(range(seq + 1, seq + 1 + len(found))))

    async def since(self, stream: str, subjects: Sequence[str], *, since_ns: int, messages_max: int) -> Recent:
        assert (stream, list(subjects)) == ("LOGS_atlas", [f"logs.atlas.{JOB}"])
        window_s = (self.time.wall_ns - since_ns) / NS_PER_S
        self.asked_s.append(window_s)
        found = [age for age in self.ages_s if age <= window_s]
        if len(found) > messages_max:
            return Recent(len(found))
        return Recent(len(found), tuple(map(printed, found)))


def from_replica(replica: int, *texts: str, attempt: int = 1) -> bytes:
    lines = OutputLines(job_id=JOB, attempt=attempt, at=1, replica=replica, lines=texts)
    return lines.model_dump_json().encode()


@asynccontextmanager
async def answering(stream: FakeStream, row: JobView, token: str = "ann") -> AsyncIterator[httpx.AsyncClient]:
    """The gateway over these messages, with this job."""
    harness = FakeHarness()
    harness.view.rows[JOB] = row
    readings = Readings(stream, ("atlas",), stream.time)  # type: ignore[arg-type]
    app = make_app(replace(harness.harness, live=Live(None, None, readings)))  # type: ignore[arg-type]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://muster", headers={"Authorization": f"Bearer {token}"}
    ) as client:
        yield client


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
    stream, _ = looked([1])
    async with answering(stream, RUNNING, token) as client:
        answer = await client.get(f"/v1/jobs/{JOB}/output?lines=5")
        refused = await client.get(f"/v1/jobs/{JOB}/output?lines=0")
    assert answer.status_code == status
    assert refused.status_code == 422
    if status == 200:
        assert [line.text for line in OutputPage.model_validate_json(answer.content).lines] == ["1"]


async def test_the_lines_after_a_cursor_come_once_and_in_order() -> None:
    stream, _ = looked([])
    stream.messages = [from_replica(0, "a", "b"), from_replica(1, "c"), from_replica(0, "d", "e")]
    async with answering(stream, RUNNING) as client:
        found: list[list[str]] = []
        after = "LOGS_atlas:0"
        for _ in range(3):
            answer = await client.get(f"/v1/jobs/{JOB}/output", params={"lines": 3, "after": after, "wait_s": 2})
            page = OutputPage.model_validate_json(answer.content)
            found.append([line.text for line in page.lines])
            after = page.end
    assert found == [["a", "b", "c"], ["d", "e"], []]
    assert after == "LOGS_atlas:3"
    assert stream.asked_s == [2, 2, 2]


async def test_one_message_longer_than_the_page_is_not_cut_and_does_not_stop_the_rest() -> None:
    stream, _ = looked([])
    stream.messages = [from_replica(0, "a", "b", "c"), from_replica(0, "d")]
    async with answering(stream, RUNNING) as client:
        answer = await client.get(f"/v1/jobs/{JOB}/output", params={"lines": 2, "after": "LOGS_atlas:0"})
    page = OutputPage.model_validate_json(answer.content)
    assert ([line.text for line in page.lines], page.end) == (["a", "b", "c"], "LOGS_atlas:1")


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [({"replica": 1}, ["b"]), ({"attempt": 2}, ["c"]), ({"group": 0}, ["a", "b", "c"]), ({"group": 1}, [])],
)
async def test_only_the_wanted_output_comes_and_the_cursor_passes_the_rest(
    wanted: dict[str, int], texts: list[str]
) -> None:
    stream, _ = looked([])
    stream.messages = [from_replica(0, "a"), from_replica(1, "b"), from_replica(0, "c", attempt=2)]
    async with answering(stream, RUNNING) as client:
        answer = await client.get(f"/v1/jobs/{JOB}/output", params={"after": "LOGS_atlas:0", **wanted})
    page = OutputPage.model_validate_json(answer.content)
    assert ([line.text for line in page.lines], page.end) == (texts, "LOGS_atlas:3")


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"replica": "-1"}, "replica"),
        ({"replica": "4096"}, "replica"),
        ({"attempt": "0"}, "attempt"),
        ({"wait_s": "6"}, "wait_s"),
        ({"after": "LOGS_atlas:x"}, "after"),
    ],
)
async def test_a_wrong_choice_of_output_is_refused_by_name(wanted: dict[str, str], named: str) -> None:
    stream, _ = looked([])
    async with answering(stream, RUNNING) as client:
        answer = await client.get(f"/v1/jobs/{JOB}/output", params=wanted)
    assert (answer.status_code, answer.json()["field"]) == (422, named)


def placed(**changes: str) -> JobView:
    slots = (Slot(group=0, replica=1, node="n2"), Slot(group=0, replica=0, node="n1"))
    return RUNNING.model_copy(update={"slots": slots, "attempt": 2, **changes})


async def pods(row: JobView, cluster: ClusterView, token: str = "ann") -> httpx.Response:
    harness = FakeHarness()
    harness.view.rows[JOB] = row
    harness.scheduler.cluster_view = cluster
    app = make_app(harness.harness)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://muster", headers={"Authorization": f"Bearer {token}"}
    ) as client:
        return await client.get(f"/v1/jobs/{JOB}/pods")


KUBERNETES = ClusterView(name="atlas", backend="kubernetes", namespace="team-{team}")


async def test_the_pods_of_a_job_have_the_names_that_the_agent_gives_them() -> None:
    found = JobPods.model_validate_json((await pods(placed(), KUBERNETES)).content)
    assert (found.cluster, found.namespace, found.container) == ("atlas", "team-blue", "main")
    keys = [PodKey(JOB, 2, 0, 0), PodKey(JOB, 2, 0, 1)]
    assert [(pod.name, pod.node) for pod in found.pods] == [(pod_name(keys[0]), "n1"), (pod_name(keys[1]), "n2")]


@pytest.mark.parametrize(("origin", "count"), [("MusterJob physics/train", 2), ("Job physics/train", 0)])
async def test_a_job_of_an_object_runs_in_the_namespace_of_the_object(origin: str, count: int) -> None:
    found = JobPods.model_validate_json((await pods(placed(origin=origin), KUBERNETES)).content)
    assert (found.namespace, len(found.pods)) == ("physics", count)


async def test_a_simulated_cluster_has_no_pods() -> None:
    found = JobPods.model_validate_json((await pods(placed(), ClusterView(name="atlas"))).content)
    assert (found.backend, found.pods) == ("simulated", ())


@pytest.mark.parametrize(("token", "status"), [("eve", 403), ("bob", 403), ("ann", 200), ("olga", 200)])
async def test_the_pods_of_a_job_are_for_who_acts_for_its_team(token: str, status: int) -> None:
    assert (await pods(placed(), KUBERNETES, token)).status_code == status
