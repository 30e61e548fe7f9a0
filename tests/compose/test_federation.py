"""A centre and two cells in containers: jobs from this machine on either of them, and one cut off for a while."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from compose.confinement import unconfined
from compose.figures import Figures
from compose.project import COMPOSE_FILE, Project
from compose.running import Stack, ended, job
from kit.stack.federated import LABEL, routed_by_label
from kit.stack.federated_invariants import violations_across
from kit.waiting import until_async
from muster.client import Muster, MusterError
from muster.schemas.job import Phase
from muster.schemas.routing import RoutingPolicy
from muster.schemas.subjects import FED_LOG, cluster_log
from muster.schemas.views import JobView

OVERRIDE = COMPOSE_FILE.with_name("compose.federation.yaml")
CELLS = ("east", "west")
STARTED_S_MAX = 180.0

pytestmark = pytest.mark.timeout(3_000)


@pytest.fixture(scope="module")
def federation(project: Project, directory: Path) -> Iterator[Stack]:
    """Just started, and gone before the stack of the other tests starts."""
    beside = project.beside(OVERRIDE)
    try:
        yield Stack.started(beside, directory / "centre")
    finally:
        beside.down()


@pytest.fixture
async def muster(federation: Stack) -> AsyncIterator[Muster]:
    async with federation.muster() as muster:
        yield muster


async def submitted(muster: Muster, name: str, *, to: str, run_s: float = 0.5) -> JobView:
    """Accepted for that cluster, however often it takes while the first queues are made: the key makes it one job."""
    spec = job(name, run_s=run_s)
    spec = spec.model_copy(update={"labels": {**spec.labels, LABEL: to}})
    accepted: list[JobView] = []

    async def is_accepted() -> bool:
        try:
            accepted.append(await muster.submit(spec, idempotency_key=name))
        except MusterError:
            return False
        return True

    await until_async(is_accepted, patience_s=STARTED_S_MAX)
    return accepted[0]


async def test_jobs_from_this_machine_run_in_either_cell(federation: Stack, muster: Muster, figures: Figures) -> None:
    await federation.first_queues()
    await muster.set_routes(RoutingPolicy.model_validate(routed_by_label(*CELLS)["policy"]))

    async def are_known() -> bool:
        return {rule.name for rule in (await muster.routes()).policy.rules} == {"to-west", "others"}

    await until_async(are_known)
    for cluster in CELLS:
        view = await ended(muster, (await submitted(muster, f"first-{cluster}", to=cluster)).id)
        assert (view.phase, view.cluster) == (Phase.SUCCEEDED, cluster)
        assert all(node.startswith(f"{cluster}-gpu") for node in view.nodes)
    figures.say(f"federation, up to a job ended in either cell: {time.monotonic() - federation.began_s:.1f} s")


def test_every_container_is_confined_and_only_the_centre_is_reached_from_here(federation: Stack) -> None:
    containers = federation.project.containers()
    assert {name: unconfined(container) for name, container in containers.items() if unconfined(container)} == {}
    listening = {name for name, container in containers.items() if any(container.ports.values())}
    assert listening == {"gateway", "nats"}
    for cell in CELLS:
        assert list(containers[cell].attrs["NetworkSettings"]["Networks"]) == [f"{federation.project.name}_{cell}"]


async def test_a_cell_that_is_cut_off_goes_on_and_no_job_is_lost_or_run_twice(
    federation: Stack, muster: Muster, figures: Figures
) -> None:
    running = await submitted(muster, "running", to="east", run_s=2.0)

    async def runs() -> bool:
        return (await muster.get(running.id)).phase is Phase.RUNNING

    await until_async(runs)
    federation.project.cut_off("nats-east", "link")
    waiting = await submitted(muster, "waiting", to="east")
    beside = await submitted(muster, "beside", to="west", run_s=5.0)
    assert (await ended(muster, beside.id)).cluster == "west"
    assert not (await muster.get(running.id)).phase.is_terminal, "the centre cannot know"

    restored, began_s = time.time_ns(), time.monotonic()
    federation.project.join("nats-east", "link")
    for view in (running, waiting):
        assert (await ended(muster, view.id)).phase is Phase.SUCCEEDED
    figures.say(f"federation, a cell is back up to its jobs seen to have ended: {time.monotonic() - began_s:.1f} s")
    logs = {cluster: await federation.facts(cluster_log(cluster)) for cluster in CELLS}
    (end,) = (fact for fact in logs["east"] if (fact.subject_id, fact.name) == (running.id, "succeeded"))
    assert end.time < restored, "it ended while nobody could be told"
    accepted = [view.id for view in (running, waiting, beside)]
    assert violations_across(logs, await federation.facts(FED_LOG), accepted=accepted) == []
