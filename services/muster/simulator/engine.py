"""A cluster in virtual time: the scheduler's and the agent's core over one log in memory, and others beside them.

What the shells and the broker do in production is done here without them: a fact gets its sequence and its time when
it is said, all cores fold it at once, and all decide until none has anything to say. Then time jumps to the next
moment at which one of them could, or at which something comes from outside. Everything is a function of what was put
in, so two runs of the same input are equal to the last bit.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.simulated import SimulatedCluster
from muster.core import NS_PER_S, Core, Draft, Fact, Instant
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Job
from muster.schemas.record import FactBody
from muster.simulator.scaling import Scaled

CLUSTER = "sim"
START = Instant(2_000_000_000 * NS_PER_S)
"""When simulations begin: any moment would do; this one lies on the simulated cluster's grid."""
DECISIONS_MAX = 20_000
"""Decisions with something to say at one moment of virtual time; cores that go on beyond it will never end."""

CHECKPOINT_NEVER = 1 << 62
"""Facts between checkpoints: nobody recovers from this log."""

QUIET = frozenset({"placed", "running", "unschedulable", "summarised", "checkpointed", "resized"})
"""Facts that free nothing and ask for nothing: after them alone, no core has more to say than before them."""

Watch = Callable[[Fact], None]
"""Told of every fact, after all cores folded it."""


class SimulationError(Exception):
    """The simulation cannot go on; the message says what never ends."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How closely the moments of the log are followed.

    step_ns: everything happens on multiples of it (1: no rounding). thorough: the scheduler is asked again after each
    of its own facts, as in production; otherwise not after those that are QUIET, which at most delays what it would
    have said to the next moment at which anything happens.
    """

    step_ns: int = 1
    thorough: bool = True


@dataclass(slots=True)
class _Companion:
    """A core beside the scheduler and the agent. has_news: a fact came since it was asked last."""

    writer: str
    core: Core
    has_news: bool = True


class Engine:
    """scheduler, agent: the cores, for reading. now: the present moment. seq: facts so far. watch: told of each.

    nodes: all that will ever be part of the cluster; they join when time first passes. limits: the scheduler's.
    scaled: node groups beside `nodes`, and the cores and fabrics that scale them.
    beside: other services' cores by writer; they decide after the scheduler and the agent, in this order.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeJoined],
        *,
        behaviour: Behaviour,
        start: Instant,
        limits: Limits | None = None,
        pace: Pace | None = None,
        watch: Watch | None = None,
        scaled: Scaled | None = None,
        beside: Mapping[str, Core] | None = None,
    ) -> None:
        self._limits = limits or Limits(checkpoint_every_facts=CHECKPOINT_NEVER)
        self.scheduler = SchedulerCore(cluster=CLUSTER, limits=self._limits)
        self.agent = AgentCore(SimulatedCluster(nodes, behaviour, scaled.groups if scaled is not None else None))
        self.scaled = scaled
        self.now = start
        self.seq = 0
        self._pace = pace or Pace()
        self.watch = watch
        self._news = True
        cores = {**(scaled.cores if scaled is not None else {}), **(beside or {})}
        self._companions = tuple(_Companion(writer, core) for writer, core in cores.items())
        self._inbox: list[tuple[Instant, int, Callable[[], None]]] = []
        self._posted = 0

    # --- what is said --------------------------------------------------------------------------------------------

    def say(
        self,
        writer: str,
        kind: str,
        subject_id: str,
        name: str,
        payload: FactBody,
        *,
        causes: tuple[str, ...] = (),
        trace: str = "",
    ) -> Fact:
        """Append a fact at this moment; all cores have folded it when this returns."""
        self.seq += 1
        seq = self.seq
        fact = Fact(f"f{seq}", seq, self.now, CLUSTER, writer, kind, subject_id, name, causes, trace, payload)
        self.scheduler.apply(fact)
        self.agent.apply(fact)
        for companion in self._companions:
            companion.core.apply(fact)
            companion.has_news = True
        if name not in QUIET or self._pace.thorough:
            self._news = True
        if self.watch is not None:
            self.watch(fact)
        return fact

    def append(self, writer: str, drafts: Iterable[Draft]) -> int:
        """Say all of a core's drafts; how many."""
        said = 0
        for draft in drafts:
            self.say(
                writer, draft.kind, draft.subject_id, draft.name, draft.payload, causes=draft.causes, trace=draft.trace
            )
            said += 1
        return said

    def ask(self, writer: str) -> bool:
        """One decision of one of the cores beside, nobody else's; whether it had something to say."""
        cores = [companion.core for companion in self._companions if companion.writer == writer]
        return any(self.append(writer, core.decide(self.now)) for core in cores)

    def route(self, job: Job) -> None:
        """The job comes to this cluster now."""
        self.say("federation", "job", job.id, "routed", JobRouted.model_construct(job=job, cluster=CLUSTER))

    def at(self, moment: Instant, act: Callable[[], None]) -> None:
        """Do this from outside when the moment has come; of equal moments in the order of the calls."""
        self._posted += 1
        heapq.heappush(self._inbox, (self._on_step(moment), self._posted, act))

    def restart_scheduler(self, log: Iterable[Fact]) -> None:
        """Another scheduler, which folds the whole log: what the old one remembered besides is gone, as in a crash."""
        self.scheduler = SchedulerCore(cluster=CLUSTER, limits=self._limits)
        for fact in log:
            self.scheduler.apply(fact)
        self._news = True

    # --- how time passes -----------------------------------------------------------------------------------------

    def settle(self) -> int:
        """Let all cores decide at this moment until none has anything to say.

        Returns how many decisions said something. Raises SimulationError after DECISIONS_MAX of them.
        """
        decisions = 0
        while self.step():
            decisions += 1
            if decisions > DECISIONS_MAX:
                raise SimulationError(f"{DECISIONS_MAX} decisions at one moment and no end: the policy thrashes")
        return decisions

    def run(self, until: Instant) -> None:
        """Let time pass up to and with `until`."""
        for _ in self.moments(until):
            pass

    def moments(self, until: Instant, *, jobs: Iterable[tuple[Instant, Job]] = ()) -> Iterator[Instant]:
        """The same moment by moment, each given after all that happens in it. jobs: arrivals, earliest first."""
        coming = iter(jobs)
        arrival = next(coming, None)
        while True:
            while arrival is not None and self._on_step(arrival[0]) <= self.now:
                self.route(arrival[1])
                arrival = next(coming, None)
            while self._inbox and self._inbox[0][0] <= self.now:
                heapq.heappop(self._inbox)[2]()
            self.settle()
            yield self.now
            due = self.next_moment()
            if arrival is not None:
                due = _earlier(due, self._on_step(arrival[0]))
            if due is None or due > until:
                break
            self.now = due
        self.now = max(self.now, until)

    def next_moment(self) -> Instant | None:
        """When something could happen next, after now; None: never."""
        due = _earlier(self.scheduler.next_wakeup(), self.agent.next_wakeup())
        for companion in self._companions:
            due = _earlier(due, companion.core.next_wakeup())
        if due is not None:
            due = self._on_step(due)
        if self._inbox:
            due = _earlier(due, self._inbox[0][0])
        return due if due is None or due > self.now else Instant(self.now + self._pace.step_ns)

    def step(self, *, ask_again: bool = False) -> bool:
        """One decision of each core that could have something to say; whether one had. ask_again: of all, anyway."""
        said = 0
        if self._news or ask_again or _is_due(self.scheduler.next_wakeup(), self.now):
            self._news = False
            said += self.append("scheduler", self.scheduler.decide(self.now))
        if ask_again or _is_due(self.agent.next_wakeup(), self.now):
            said += self.append("agent", self.agent.decide(self.now))
        for companion in self._companions:
            if ask_again or companion.has_news or _is_due(companion.core.next_wakeup(), self.now):
                companion.has_news = False
                said += self.append(companion.writer, companion.core.decide(self.now))
        return said > 0

    def _on_step(self, moment: Instant) -> Instant:
        step = self._pace.step_ns
        return Instant(-(-moment // step) * step)


def _is_due(wakeup: Instant | None, now: Instant) -> bool:
    return wakeup is not None and wakeup <= now


def _earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
