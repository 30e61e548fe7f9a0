"""The guard at a real API server: exactly two LISTs at a time, whatever other levels do, and what it sees."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from kit.kube.planes import open_plane
from kit.waiting import until_async
from muster.core import Instant
from muster.guard.core.config import GuardConfig, Kind, Subjects
from muster.guard.core.flow import BALLAST
from muster.guard.core.look import FlowLook, Look
from muster.guard.observer import ClusterObserver
from muster.guard.replicas import Place
from muster_tools.demo.guard.burst import Burst, burst
from muster_tools.demo.guard.limits import BURST
from muster_tools.demo.guard.stage import READERS, fill, let_read
from muster_tools.demo.guard.story_skew import Balancer
from muster_tools.local_kubernetes.access import write_kubeconfig
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane

pytestmark = pytest.mark.timeout(300)

READER = "reader"
ALONE = PlaneOptions(kwok=False, users=((READER, (READERS,)),))
CONFIG = GuardConfig(subjects=Subjects.EVERYBODY)
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"


@asynccontextmanager
async def guarding(
    plane: ControlPlane, config: GuardConfig = CONFIG, *, audit_port: int = 0
) -> AsyncIterator[ClusterObserver]:
    """A guard without a stack."""
    place = Place(plane.kubeconfig(), api_servers=plane.servers, audit_host="127.0.0.1", audit_port=audit_port)
    async with ClusterObserver(place, config, version="0", now=lambda: Instant(1)) as observer:
        yield observer


def level(name: str, shares: int) -> dict[str, object]:
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}}
    return {"metadata": {"name": name}, "spec": spec}


def only(look: Look) -> FlowLook:
    (flow,) = look.flows
    return flow


async def post(client: aiohttp.ClientSession, path: str, body: object) -> None:
    async with client.post(path, json=body) as answer:
        answer.raise_for_status()


async def _burst(*, emulated_version: str, limited: bool) -> Burst:
    """Fifty LISTs as an ordinary user at a fresh API server, since memory is not given back."""
    async with open_plane(replace(ALONE, emulated_version=emulated_version)) as plane:
        await let_read(plane)
        await fill(plane)
        if limited:
            async with guarding(plane) as observer:
                assert only(await observer.keep()).is_right
        return await burst(plane, READER)


Say = Callable[[str, Burst], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Prints the figures of a burst, whatever comes of the test."""

    def tell(name: str, one: Burst) -> None:
        with capsys.disabled():
            sys.stdout.write(
                f"\n{name}: peak {one.peak_mib:.0f} MiB (idle {one.idle_mib:.0f}), {one.answered} answered, "
                f"{one.rejected} rejected, {one.failed} failed, at most {one.executing} at a time and {one.queued} "
                f"queued, {one.seconds:.1f} s\n"
            )

    return tell


async def test_fifty_lists_melt_an_older_api_server_down_and_two_at_a_time_do_not(say: Say) -> None:
    free = await _burst(emulated_version="1.32", limited=False)
    held = await _burst(emulated_version="1.32", limited=True)
    say("50 LISTs, 1.32 emulated, without", free)
    say("50 LISTs, 1.32 emulated, two at a time", held)
    assert free.executing > 10, "nothing holds them back"
    assert held.executing <= 2
    assert held.queued >= BURST // 2
    assert (held.failed, held.answered + held.rejected) == (0, BURST)
    grown_free, grown_held = (one.peak_mib - one.idle_mib for one in (free, held))
    assert grown_held < grown_free / 3, "what the LISTs add to memory"


async def test_streaming_encoding_hides_most_of_it_and_the_limit_holds_as_well(say: Say) -> None:
    free = await _burst(emulated_version="", limited=False)
    held = await _burst(emulated_version="", limited=True)
    say("50 LISTs, native, without", free)
    say("50 LISTs, native, two at a time", held)
    assert free.executing > 10
    assert held.executing <= 2
    assert held.peak_mib < free.peak_mib
    assert (held.failed, held.answered + held.rejected) == (0, BURST)


async def test_seats_are_right_again_after_other_levels_changed() -> None:
    async with open_plane(replace(ALONE, apiservers=2)) as plane, plane.client() as client, guarding(plane) as observer:
        first = only(await observer.keep())
        assert (first.is_right, first.found, first.shares, first.ballast) == (True, (2, 2), 1, 54)
        for name, shares in (("large", 700), ("larger", 3_000)):
            await post(client, LEVELS, level(name, shares))

            async def is_wrong() -> bool:
                return not only(await observer.look()).is_right

            await until_async(is_wrong)
            again = only(await observer.keep())
            assert (again.is_right, again.found, again.written) == (True, (2, 2), True)


async def test_several_kinds_have_their_own_seats() -> None:
    kinds = (Kind("secrets", seats=2), Kind("pods", seats=5), Kind("jobs", "batch", seats=1))
    async with open_plane(ALONE) as plane, guarding(plane, replace(CONFIG, kinds=kinds)) as observer:
        look = await observer.keep()
        assert [(flow.found, flow.is_right) for flow in look.flows] == [((2, 2), True), ((5, 5), True), ((1, 1), True)]


async def test_what_somebody_changed_by_hand_is_taken_back() -> None:
    async with open_plane(ALONE) as plane, plane.client() as client, guarding(plane) as observer:
        await observer.keep()
        patch = {"spec": {"limited": {"borrowingLimitPercent": 100}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with client.patch(f"{LEVELS}/muster-list-secrets", json=patch, headers=headers) as answer:
            answer.raise_for_status()

        async def is_wrong() -> bool:
            return not only(await observer.look()).is_right

        await until_async(is_wrong)
        assert only(await observer.keep()).is_right


async def test_the_ballasts_seats_are_lent_to_whom_needs_them() -> None:
    """Seats that nobody may use would be lost to everybody: the ballast's are borrowed while there is demand."""
    async with open_plane(ALONE) as plane:
        async with guarding(plane) as observer:
            look = await observer.keep()
            assert only(look).is_right
            (ballast,) = [one for one in look.levels or () if one.name == BALLAST]
        async with plane.client() as client, client.get("/metrics") as answer:
            text = await answer.text()
        name = f'apiserver_flowcontrol_lower_limit_seats{{priority_level="{BALLAST}"}} '
        (lower,) = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
        assert (ballast.lendable, float(lower)) == (100, 0.0)


async def test_without_permission_it_says_which_and_shows_what_it_can() -> None:
    async with open_plane(ALONE) as plane:
        place = Place(plane.kubeconfig(READER), api_servers=plane.servers)
        async with ClusterObserver(place, CONFIG, version="0", now=lambda: Instant(1)) as observer:
            look = await observer.look()
        said = " ".join(look.lacking)
        assert look.levels is None
        assert 'cannot get path "/metrics"' in said or "/metrics" in said
        assert "prioritylevelconfigurations" in said


async def test_an_api_server_that_is_away_is_told_and_the_other_is_seen() -> None:
    async with open_plane(replace(ALONE, apiservers=2)) as plane, guarding(plane) as observer:
        await plane.stop("kube-apiserver-1")
        look = await observer.look()
        assert [one.page is not None for one in look.replicas] == [True, False]
        assert "cannot be reached" in look.replicas[1].error


async def test_streams_of_an_http2_connection_are_read_from_the_servers_greeting() -> None:
    options = replace(ALONE, apiserver_flags=("--http2-max-streams-per-connection=321",))
    async with open_plane(options) as plane, guarding(plane) as observer:
        assert (await observer.look()).replicas[0].streams_max == 321


async def test_api_servers_behind_one_address_are_told_apart(tmp_path: Path) -> None:
    async with open_plane(replace(ALONE, apiservers=2)) as plane, Balancer(plane.servers) as balancer:
        config = write_kubeconfig(
            tmp_path / "balanced", server=balancer.url, ca=plane.ca, user="admin", token=plane.token()
        )
        async with ClusterObserver(Place(config), CONFIG, version="0", now=lambda: Instant(1)) as observer:

            async def both_are_seen() -> bool:
                return len((await observer.look()).up) == 2

            await until_async(both_are_seen)
            look = await observer.keep()
            assert only(look).is_right
            assert any("told apart by start time" in sentence for sentence in look.lacking)
