"""What following 10,000 pods costs a process: `PYTHONPATH=tests .venv/bin/python -m bench.reflector`.

A real API server on loopback with that many pods of about 5.8 KB; each way of having them runs in a process of its
own, one after the other: seconds until all are there, memory that it adds (peak and held), the longest stall of its
event loop, and what the API server spent. The typed client is the official one, `kubernetes.aio`.
"""

import argparse
import asyncio
import dataclasses
import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from kit.kube.fake.samples import pod
from kit.kube.planes import open_plane
from kit.waiting import until
from muster.kube.connection import KubeConnection
from muster.kube.credentials import AnotherReplica
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, at, objects, text
from muster.kube.official import from_kubeconfig
from muster.kube.reflector import Reflector
from muster.kube.resources import NAMESPACES, PODS
from muster.kube.shapes import Selection
from muster_tools.local_kubernetes.options import PlaneOptions

MIB = 2**20
SPACE = "bench"
TICK_S = 0.002
WAYS = ("reflector", "reflector-pages", "reflector-metadata", "compare-count", "compare-whole", "typed", "preload-off")


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of one way. memory in MiB added by it; server_cpu_s: of the API server meanwhile."""

    way: str
    objects: int
    seconds: float
    cpu_s: float
    peak_mib: float
    held_mib: float
    stall_s: float
    server_cpu_s: float = 0.0


def big_pod(number: int) -> JsonObject:
    """About 5.8 KB as the server sends it."""
    made = pod(f"pod-{number:05}", namespace=SPACE, gpus=1, labels={"app": "train", "index": str(number)})
    container = objects(made, "spec", "containers")[0]
    container["env"] = [{"name": f"SETTING_{index}", "value": "v" * 60} for index in range(28)]
    return made


@dataclasses.dataclass(frozen=True, slots=True)
class PodView:
    """Seven fields, as an agent keeps them."""

    uid: str
    node: str
    phase: str
    scheduler: str
    app: str
    deleted: bool
    gpus: str


def project(obj: JsonObject) -> PodView:
    containers = objects(obj, "spec", "containers")
    return PodView(
        uid=text(obj, "metadata", "uid"),
        node=text(obj, "spec", "nodeName"),
        phase=text(obj, "status", "phase"),
        scheduler=text(obj, "spec", "schedulerName"),
        app=text(obj, "metadata", "labels", "app"),
        deleted=bool(text(obj, "metadata", "deletionTimestamp")),
        gpus=text(at(containers[0], "resources", "limits") if containers else None, "nvidia.com/gpu"),
    )


class Peak(threading.Thread):
    """Watches this process's memory."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._process = psutil.Process()
        self._over = threading.Event()
        self.mib = self._process.memory_info().rss / MIB

    def run(self) -> None:
        while not self._over.wait(0.01):
            self.mib = max(self.mib, self._process.memory_info().rss / MIB)

    def end(self) -> float:
        self._over.set()
        self.join()
        return self.mib


async def stalls(worst: list[float]) -> None:
    """The longest time by which this task woke too late."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(TICK_S)
        worst[0] = max(worst[0], loop.time() - before - TICK_S)


async def by_reflector(kube: KubeConnection, *, streaming: bool = True, metadata_only: bool = False) -> object:
    async def ignore(changes: list[Change[PodView]]) -> None:
        pass

    reflector = Reflector(
        kube,
        PODS,
        project=project,
        on_changes=ignore,
        select=Selection(SPACE),
        metadata_only=metadata_only,
        compare_s=None,
    )
    reflector._waits.streaming_lists = streaming
    task = asyncio.create_task(reflector.run())
    await reflector.wait_synced()
    return reflector, len(reflector), task


async def by_comparison(kube: KubeConnection, *, whole: bool) -> object:
    limit, token, found = (500 if whole else 1), "", 0
    while True:
        page = await kube.list_page(
            PODS, select=Selection(SPACE), limit=limit, continue_token=token, metadata_only=True
        )
        found += len(page.items)
        token = page.continue_token
        if not whole or not token:
            return None, found + (0 if whole else page.remaining)


async def by_official(kubeconfig: Path, *, typed: bool) -> object:
    from kubernetes.aio import client, config  # noqa: PLC0415

    configuration = client.Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        if typed:
            found = await client.CoreV1Api(api).list_namespaced_pod(SPACE)
            return found, len(found.items)
        answer = await client.CoreV1Api(api).list_namespaced_pod_without_preload_content(SPACE)
        parsed = json.loads(await answer.read())
        return parsed, len(parsed["items"])


def way_of(name: str, kube: KubeConnection, kubeconfig: Path) -> Callable[[], Awaitable[object]]:
    return {
        "reflector": lambda: by_reflector(kube),
        "reflector-pages": lambda: by_reflector(kube, streaming=False),
        "reflector-metadata": lambda: by_reflector(kube, metadata_only=True),
        "compare-count": lambda: by_comparison(kube, whole=False),
        "compare-whole": lambda: by_comparison(kube, whole=True),
        "typed": lambda: by_official(kubeconfig, typed=True),
        "preload-off": lambda: by_official(kubeconfig, typed=False),
    }[name]


async def measure(name: str, kubeconfig: Path) -> Figures:
    """In this process, which does nothing else."""
    if name in ("typed", "preload-off"):
        import kubernetes.aio.client  # noqa: F401, PLC0415 - its own memory is not the pods'
    async with await KubeConnection.open(kubeconfig=kubeconfig, user_agent="muster-bench/1") as kube:
        await kube.get_path("/version")
        way, worst = way_of(name, kube, kubeconfig), [0.0]
        watcher = asyncio.create_task(stalls(worst))
        await asyncio.sleep(0.1)
        gc.collect()
        process, peak = psutil.Process(), Peak()
        before, cpu = process.memory_info().rss / MIB, process.cpu_times()
        peak.start()
        worst[0], started = 0.0, time.monotonic()
        result = await way()
        seconds = time.monotonic() - started
        await asyncio.sleep(0)
        used = process.cpu_times()
        highest = peak.end()
        gc.collect()
        held = process.memory_info().rss / MIB - before
        watcher.cancel()
        assert isinstance(result, tuple)
        spent = used.user + used.system - cpu.user - cpu.system
        figures = Figures(name, result[1], seconds, spent, highest - before, held, worst[0])
        for part in result:
            if isinstance(part, asyncio.Task):
                part.cancel()
                await asyncio.gather(part, return_exceptions=True)
        return figures


@asynccontextmanager
async def filled(pods: int) -> AsyncIterator[tuple[Path, psutil.Process]]:
    """A kubeconfig of an API server with that many pods, and the server's process."""
    async with open_plane(PlaneOptions(kwok=False)) as plane:
        kubeconfig = plane.kubeconfig()
        async with await KubeConnection.open(kubeconfig=kubeconfig, user_agent="muster-bench/1") as kube:
            await kube.create(NAMESPACES, {"metadata": {"name": SPACE}})
            numbers = iter(range(pods))

            async def work() -> None:
                for number in numbers:
                    await kube.create(PODS, big_pod(number), namespace=SPACE)

            await asyncio.gather(*(work() for _ in range(32)))
        yield kubeconfig, psutil.Process(plane.pids["kube-apiserver-0"])


async def compare(pods: int, ways: list[str]) -> list[Figures]:
    found = []
    async with filled(pods) as (kubeconfig, server):
        for way in ways:
            before = server.cpu_times()
            argv = [sys.executable, "-m", "bench.reflector", "--one", way, "--kubeconfig", str(kubeconfig)]
            said = await asyncio.to_thread(
                subprocess.run, argv, stdout=subprocess.PIPE, text=True, check=True, timeout=300
            )
            used = server.cpu_times()
            spent = used.user + used.system - before.user - before.system
            found.append(dataclasses.replace(Figures(**json.loads(said.stdout)), server_cpu_s=spent))
    return found


async def outage(reflectors: int, seconds: float, pods: int) -> dict[str, float]:
    """An API server that is away for so long, followed by many: what they ask of it when it is back."""
    async with open_plane(PlaneOptions(kwok=False)) as plane:
        credentials = await from_kubeconfig(plane.kubeconfig())
        async with KubeConnection(credentials, user_agent="muster-bench/1", watches_max=reflectors) as kube:
            await kube.create(NAMESPACES, {"metadata": {"name": SPACE}})
            for number in range(pods):
                await kube.create(PODS, big_pod(number), namespace=SPACE)

            async def ignore(changes: list[Change[PodView]]) -> None:
                pass

            fleet = [
                Reflector(
                    kube, PODS, project=project, on_changes=ignore, select=Selection(SPACE), seed=seed, compare_s=None
                )
                for seed in range(reflectors)
            ]
            tasks = [asyncio.create_task(one.run()) for one in fleet]
            for one in fleet:
                await one.wait_synced()
            before = sum(one.figures.relists for one in fleet)
            await plane.stop("kube-apiserver-0")
            await asyncio.sleep(seconds)
            refused = sum(one.figures.failures for one in fleet)
            await plane.start("kube-apiserver-0")
            back = time.monotonic()
            async with AnotherConnection(credentials) as other:
                await other.create(PODS, big_pod(pods), namespace=SPACE)
                made = time.monotonic()
                await until(lambda: all(len(one) == pods + 1 for one in fleet))
                caught_up = time.monotonic()
                lists, watches = await asked(other)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return {
                "reflectors": reflectors,
                "outage_s": seconds,
                "attempts_while_away": refused,
                "lists_after": lists,
                "watches_after": watches,
                "relists_after": sum(one.figures.relists for one in fleet) - before,
                "first_write_s": made - back,
                "all_caught_up_s": caught_up - back,
            }


def AnotherConnection(credentials: object) -> KubeConnection:  # noqa: N802
    return KubeConnection(AnotherReplica(credentials, credentials.url), user_agent="other/1")  # type: ignore[arg-type, attr-defined]


async def asked(kube: KubeConnection) -> tuple[int, int]:
    """LISTs and open watches of the namespace's pods, in the new process's own words."""
    lists = watches = 0
    async with kube.lines("/metrics") as lines:
        async for batch in lines.batches():
            for line in batch:
                if b'resource="pods"' in line and b'scope="namespace"' in line:
                    if line.startswith(b"apiserver_request_total{") and b'verb="LIST"' in line:
                        lists += int(float(line.rsplit(b" ", 1)[1]))
                    if line.startswith((b"apiserver_longrunning_requests{",)) and b'verb="WATCH"' in line:
                        watches += int(float(line.rsplit(b" ", 1)[1]))
    return lists, watches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--outage", type=float, default=0.0, help="seconds; measure an outage instead")
    parser.add_argument("--reflectors", type=int, default=20)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(dataclasses.asdict(asyncio.run(measure(given.one, given.kubeconfig)))))  # noqa: T201
        return
    if given.outage:
        print(json.dumps(asyncio.run(outage(given.reflectors, given.outage, given.pods)), indent=2))  # noqa: T201
        return
    print(f"{'way':20}{'objects':>8}{'s':>7}{'cpu s':>7}{'peak MiB':>10}{'held':>7}{'stall ms':>10}{'server s':>10}")  # noqa: T201
    for one in asyncio.run(compare(given.pods, given.ways)):
        print(  # noqa: T201
            f"{one.way:20}{one.objects:8}{one.seconds:7.2f}{one.cpu_s:7.2f}{one.peak_mib:10.0f}{one.held_mib:7.0f}"
            f"{one.stall_s * 1000:10.0f}{one.server_cpu_s:10.2f}"
        )


if __name__ == "__main__":
    main()
