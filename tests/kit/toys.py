"""Small services and fakes to try the shell with: an agent that reports nodes, a scheduler that releases them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nats.aio.client import Client

from kit.checkpoints import MemoryCheckpoints
from kit.clocks import FakeTime
from kit.memory_log import MemoryAppender, MemoryLog, MemoryReader
from muster.bus.batches import Writer
from muster.bus.checkpoint import Checkpoints, Voidance, contributors
from muster.bus.clock import Clock
from muster.bus.declaration import Declaration, QueryType
from muster.bus.lease import Lease
from muster.bus.limits import ShellLimits
from muster.bus.nats_log import Hub, Member
from muster.bus.service import CoreService
from muster.bus.shell import Shell, ShellParts
from muster.core.fact import Core, Draft, Fact
from muster.core.instant import Instant
from muster.schemas.base import Wire
from muster.schemas.facts.control import CheckpointRequested, Voided
from muster.schemas.facts.node import GrantState, NodeJoined, NodeState, Released
from muster.schemas.ids import request_fact_id
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import cluster_log

LOG = cluster_log("atlas")
JOINED = NodeJoined(cpu_milli=1000, memory_mib=1024)


class HowMany(Wire):
    """To the scheduler (`queues`): all of them, or those of a kind."""

    job_id: str = ""


class Count(Wire):
    """How many nodes it released."""

    released: int


AGENT = Declaration("agent", folds=(StreamRole.LOG,))
SCHEDULER = Declaration("scheduler", folds=(StreamRole.LOG,), queries=(QueryType("queues", HowMany, Count),))


@dataclass
class Releasing:
    """A scheduler that releases every node that joined. poison: name of a node whose facts it cannot fold."""

    poison: str = ""
    joined: dict[str, str] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    folded: int = 0
    states_folded: int = 0

    def apply(self, fact: Fact) -> None:
        if self.poison and fact.subject_id == self.poison:
            raise RuntimeError("cannot bear this node")
        self.folded += 1
        self.states_folded += fact.name == "state-recorded"
        if isinstance(fact.payload, NodeJoined | NodeState):
            self.joined.setdefault(fact.subject_id, fact.id)
        elif isinstance(fact.payload, Released) or (isinstance(fact.payload, GrantState) and fact.payload.released):
            self.released.add(fact.subject_id)

    def decide(self, now: Instant) -> list[Draft]:
        waiting = (node for node in self.joined if node not in self.released)
        return [Draft("node", node, "released", Released(), causes=(self.joined[node],)) for node in waiting]

    def next_wakeup(self) -> Instant | None:
        return None

    def snapshot(self) -> Iterator[Draft]:
        for node in sorted(self.released):
            yield Draft("node", node, "state-recorded", GrantState(released=True))


@dataclass
class Reporting:
    """An agent that reports the nodes it was told of."""

    wanted: Sequence[str] = ()
    joined: set[str] = field(default_factory=set)

    def apply(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeJoined | NodeState):
            self.joined.add(fact.subject_id)

    def decide(self, now: Instant) -> list[Draft]:
        return [Draft("node", node, "joined", JOINED) for node in self.wanted if node not in self.joined]

    def next_wakeup(self) -> Instant | None:
        return None

    def snapshot(self) -> Iterator[Draft]:
        for node in sorted(self.joined):
            yield Draft("node", node, "state-recorded", NodeState(description=JOINED))


def scheduler(make: Callable[[], Core] = Releasing) -> CoreService:
    """The releasing scheduler as a service."""

    def how_many(core: Core, request: Wire, now: Instant) -> Wire:
        assert isinstance(core, Releasing)
        return Count(released=len(core.released))

    return CoreService(SCHEDULER, StreamRole.LOG, make, queries={"queues": how_many})


def agent(*nodes: str) -> CoreService:
    """The reporting agent as a service."""
    return CoreService(AGENT, StreamRole.LOG, lambda: Reporting(nodes))


class Silent:
    """A core that folds nothing and has nothing to say; its part of a checkpoint is empty."""

    def apply(self, fact: Fact) -> None:
        pass

    def decide(self, now: Instant) -> list[Draft]:
        return []

    def next_wakeup(self) -> Instant | None:
        return None

    def snapshot(self) -> Iterator[Draft]:
        yield from ()


def bystanders() -> tuple[CoreService, ...]:
    """The other services whose parts a cluster's checkpoint needs."""
    others = [service for service in contributors(StreamRole.LOG) if service not in ("agent", "scheduler")]
    return tuple(
        CoreService(Declaration(service, folds=(StreamRole.LOG,)), StreamRole.LOG, Silent) for service in others
    )


def agent_fact(node: str, *, nonce: str = "") -> tuple[Draft, str]:
    """`joined` of a node, and an id for it."""
    return Draft("node", node, "joined", JOINED), request_fact_id("test", node, nonce)


def put(log: MemoryLog, writer: str, draft: Draft) -> int:
    """Store one fact as that writer would; its sequence."""
    message = Writer(log.name, writer).write(draft, request_fact_id("test", str(log.head_seq)))
    return log.put(message.subject, message.headers, message.body)


def put_joined(log: MemoryLog, *nodes: str) -> int:
    """Store `joined` of these nodes; the last one's sequence."""
    return [put(log, "agent", Draft("node", node, "joined", JOINED)) for node in nodes][-1]


def put_checkpoint_request(log: MemoryLog) -> int:
    return put(log, "scheduler", Draft("log", "checkpoint", "checkpoint-requested", CheckpointRequested()))


def put_voided(log: MemoryLog, seq: int, service: str) -> int:
    return put(log, "operator", Draft("log", str(seq), "voided", Voided(seq=seq, service=service)))


class HandLeases:
    """Leases that a test gives (`free`) and takes (`lose`); one holder at a time."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.held: list[Lease] = []
        self.released: list[Lease] = []
        self._terms = 0

    async def acquire(self, service: str, scope: str) -> Lease:
        key = f"{service}.{scope}"
        await self.free.wait()
        while any(lease.key == key and not lease.is_lost for lease in self.held):
            await asyncio.sleep(0.002)
            await self.free.wait()
        self._terms += 1
        lease = Lease(key, term=self._terms, deadline_s=float("inf"))
        self.held.append(lease)
        return lease

    async def release(self, lease: Lease) -> None:
        lease.is_lost = True
        self.released.append(lease)


class MemoryServiceLog:
    """A log in memory as one process's shells see it: one shared reader."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.name = log.name
        self.is_copy = False
        self.hub = Hub(self._open)
        self.readers_opened = 0

    async def reader(self, *, after_seq: int) -> Member:
        return await self.hub.reader(after_seq=after_seq)

    def appender(self, service: str) -> MemoryAppender:
        return self.log.appender(service)

    async def voided(self) -> tuple[Voidance, ...]:
        reader = await self.log.reader(after_seq=await self.first_seq() - 1)
        batch = await reader.read(limit=self.log.head_seq + 1, timeout_s=0)
        return tuple(said for fact in batch.facts if (said := Voidance.said_by(fact)) is not None)

    async def first_seq(self) -> int:
        found = self.log.messages_after(0, 1)
        return found[0].seq if found else self.log.head_seq + 1

    async def newest_term(self, service: str) -> int:
        _, fence = self.log.newest_fence(service)
        return 0 if fence is None else fence.term

    async def _open(self, after_seq: int) -> MemoryReader:
        self.readers_opened += 1
        return await self.log.reader(after_seq=after_seq)


@dataclass
class MemoryHarness:
    """A log in memory, what stands beside it, and shells over them, all in one test."""

    time: FakeTime = field(default_factory=FakeTime)
    store: MemoryCheckpoints = field(default_factory=MemoryCheckpoints)
    leases: HandLeases = field(default_factory=HandLeases)

    def __post_init__(self) -> None:
        self.log = MemoryLog(LOG, clock=self.time.wall)
        self.process = MemoryServiceLog(self.log)
        self.checkpoints = Checkpoints(self.store, LOG)
        self.tasks: list[asyncio.Task[None]] = []

    def shell(
        self, service: CoreService, *, process: MemoryServiceLog | None = None, leases: HandLeases | None = None
    ) -> Shell:
        """A shell that is not started. process: which reader it shares. A sink gets a client that is not connected."""
        parts = ShellParts(
            log=process or self.process,
            leases=leases or self.leases,
            checkpoints=self.checkpoints,
            holder="test",
            clock=Clock(self.time),
            limits=ShellLimits(idle_s=0.02),
            connection=Client() if service.sink is not None else None,
        )
        return Shell(service, parts)

    def start(self, shell: Shell) -> "asyncio.Task[None]":
        task = asyncio.create_task(shell.run())
        self.tasks.append(task)
        return task

    def facts(self, name: str = "") -> list[Fact]:
        """What stands in the log."""
        found = self.log.messages_after(self.log.head_seq - len(self.log._messages), self.log.head_seq + 1)
        return [fact for fact in found if isinstance(fact, Fact) and name in ("", fact.name)]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
