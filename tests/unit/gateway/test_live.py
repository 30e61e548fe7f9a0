"""The door of the live view: who gets which credential, and snapshots that are read once for all who wait."""

import asyncio
import gc
import gzip
import json
import os
import weakref
from dataclasses import replace

import httpx
import pytest

from kit.clocks import FakeTime
from kit.http.gateway import FakeHarness, live_ends
from muster.bus.jwt import PREFIX_ACCOUNT, ViewSigner, claims_of, new_key
from muster.core.instant import NS_PER_S
from muster.gateway.http import make_app
from muster.gateway.live import Credentials, Live
from muster.gateway.ports import UnreachableError
from muster.gateway.snapshot import Image, JobRows, Shared, image_of
from muster.schemas.live import LiveCredential, Snapshot

SIGNER = ViewSigner(new_key(PREFIX_ACCOUNT, b"s" * 32), new_key(PREFIX_ACCOUNT, b"a" * 32).public)
LIFETIME_S = 20
URL = "ws://127.0.0.1:4223"
JOB = b'{"id":"%b","name":"a","team":"blue","principal":"p","queue":"q","phase":"queued"}' % (b"A" * 26)
NODE = b'{"name":"n1","cluster":"atlas"}'


class FakeSnapshots:
    """One image, or the reason why there is none."""

    def __init__(self) -> None:
        tables = {"nodes": [(b"n1", NODE)], "queues": [], "reservations": [], "telemetry": [(b"n1", b"[null]")]}
        self.made = image_of({"atlas": 7, "fed": 3}, 99, JobRows([JOB]), tables)
        self.fails = ""

    async def image(self) -> Image:
        if self.fails:
            raise UnreachableError(self.fails)
        return self.made


class Harness:
    """A gateway that serves dashboards."""

    def __init__(self, signer: ViewSigner | None = SIGNER, url: str = URL) -> None:
        self.snapshots = FakeSnapshots()
        self.time = FakeTime()
        credentials = Credentials(("atlas",), url, signer, self.time, LIFETIME_S, live_ends(self.time))
        live = Live(self.snapshots, credentials, None)  # type: ignore[arg-type]
        self.app = make_app(replace(FakeHarness().harness, live=live))

    def client(self, token: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://muster", headers=headers)


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        ("eve", ("public",)),
        ("ann", ("public", "blue", "none", "shut")),
        ("olga", ("public", "*")),
        ("root", ("public", "*")),
    ],
)
async def test_a_dashboard_listens_to_what_its_principal_acts_for(token: str, seen: tuple[str, ...]) -> None:
    harness = Harness()
    async with harness.client(token) as client:
        answer = await client.post("/v1/live/credential")
        snapshot = Snapshot.model_validate_json((await client.get("/v1/snapshot")).content)
    given = LiveCredential.model_validate_json(answer.content)
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert (given.url, given.clusters, given.audiences) == (URL, ("atlas", "fed"), seen)
    rights = claims_of(given.jwt)["nats"]
    assert isinstance(rights, dict)
    assert rights["pub"] == {"deny": [">"]}
    wanted = {f"view.{cluster}.{audience}.>" for cluster in given.clusters for audience in seen}
    assert set(rights["sub"]["allow"]) == {*wanted, f"{given.inbox_prefix}.>"}
    assert snapshot.seqs == {"atlas": dict.fromkeys(seen, 7), "fed": dict.fromkeys(seen, 3)}


async def test_a_credential_lasts_as_long_as_is_set_and_none_is_given_twice() -> None:
    harness = Harness()
    async with harness.client("ann") as client:
        first, second = [LiveCredential.model_validate_json((await client.post("/v1/live/credential")).content)
                         for _ in range(2)]  # fmt: skip
    assert first.expires_at_s == harness.time.wall_ns // NS_PER_S + LIFETIME_S
    assert (first.seed, first.inbox_prefix) != (second.seed, second.inbox_prefix)


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/live/credential"), ("GET", "/v1/snapshot")])
async def test_nobody_looks_without_a_token(method: str, path: str) -> None:
    async with Harness().client("") as client:
        assert (await client.request(method, path)).status_code == 401


async def test_a_gateway_that_cannot_sign_says_so() -> None:
    for harness in (Harness(signer=None), Harness(url="")):
        async with harness.client("ann") as client:
            answer = await client.post("/v1/live/credential")
        assert (answer.status_code, "WebSocket" in answer.json()["detail"]) == (503, True)


async def test_a_snapshot_holds_every_row_as_it_was_stored_and_travels_compressed() -> None:
    async with Harness().client("ann") as client:
        packed = await client.get("/v1/snapshot", headers={"Accept-Encoding": "gzip"})
        plain = await client.get("/v1/snapshot", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    snapshot = Snapshot.model_validate_json(plain.content)
    assert [job.id for job in snapshot.jobs] == ["A" * 26]
    assert (snapshot.at, snapshot.telemetry) == (99, {"n1": (None,)})
    assert plain.json()["nodes"] == [json.loads(NODE)]


def test_the_same_image_is_closed_for_each_who_asks() -> None:
    tables = {name: [(os.urandom(4).hex().encode(), NODE)] for name in ("nodes", "queues", "reservations")}
    image = image_of({"atlas": 1}, 1, JobRows([JOB] * 1_000), {**tables, "telemetry": []})
    for audiences in (["public"], ["public", "blue"], ["public", "*"]):
        assert gzip.decompress(image.gzipped(audiences)) == image.whole(audiences)
        assert json.loads(image.whole(audiences))["seqs"] == {"atlas": dict.fromkeys(audiences, 1)}


async def test_without_the_read_model_there_is_no_snapshot() -> None:
    harness = Harness()
    harness.snapshots.fails = "the read model does not answer"
    async with harness.client("ann") as client:
        answer = await client.get("/v1/snapshot")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


class Reads:
    """Numbered reads that end when they are told to."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()
        self.fails = False

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        await self.go.wait()
        if self.fails:
            raise UnreachableError("away")
        return number


async def test_any_number_of_readers_share_two_reads_and_none_gets_an_older_one() -> None:
    reads = Reads()
    shared = Shared(reads)
    first = asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reads.begun == 1
    late = [asyncio.create_task(shared.get()) for _ in range(50)]
    await asyncio.sleep(0)
    reads.go.set()
    assert await first == 1
    assert set(await asyncio.gather(*late)) == {2}
    assert await shared.get() == 3


async def test_a_reader_that_leaves_takes_the_read_from_nobody() -> None:
    reads = Reads()
    shared = Shared(reads)
    leaving, staying = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    leaving.cancel()
    reads.go.set()
    assert await staying == 1


async def test_a_read_that_fails_fails_for_those_who_waited_for_it_alone() -> None:
    reads = Reads()
    reads.fails = True
    reads.go.set()
    shared = Shared(reads)
    with pytest.raises(UnreachableError):
        await shared.get()
    reads.fails = False
    assert await shared.get() == 2


async def test_what_was_read_is_forgotten_when_everybody_has_it() -> None:
    class Large:
        """Something that can be seen to go."""

    async def read() -> Large:
        return Large()

    shared = Shared(read)
    large = weakref.ref(await shared.get())
    await asyncio.sleep(0)  # the loop lets go of what it just handed over
    gc.collect()
    assert large() is None
