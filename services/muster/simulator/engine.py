"""A cluster in virtual time: the scheduler's and the agent's core over one log in memory, and others beside them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.simulated import SimulatedCluster
from muster.core import NS_PER_S, Core, Fact, Instant
from muster.core.virtual import Action, VirtualCluster, Watch, recover
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.queue import QueueChangeRefused, QueueChangeRequested, QueueSpec
from muster.schemas.job import Job
from muster.simulator.errors import InputError
from muster.simulator.scaling import Scaled

CLUSTER = "sim"
START = Instant(2_000_000_000 * NS_PER_S)
"""When simulations begin: any moment would do; this one lies on the simulated cluster's grid."""
STEPS_MAX = 20_000
"""Steps at one moment of virtual time; cores that go on beyond it will never end."""

CHECKPOINT_NEVER = 1 << 62
"""Facts between checkpoints: no service recovers from this log."""

QUIET = frozenset({"placed", "running", "unschedulable", "summarised", "checkpointed", "resized"})
"""Facts that free nothing and ask for nothing: after them alone, no core has more to decide than before them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Granularity at which the engine follows the times of the log."""

    step_ns: int = 1
    """Everything happens on multiples of it; 1: no rounding."""
    thorough: bool = True
    """Ask the scheduler again after each of its own facts, as in production; otherwise not after those that are QUIET,
    which at most delays what it would have decided to the next moment at which anything happens."""


class Engine(VirtualCluster):
    """The cores of one simulated cluster. The log is not kept unless that is asked for: it may have millions of facts.

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
        keeps_log: bool = False,
    ) -> None:
        self._limits = limits or Limits(checkpoint_every_facts=CHECKPOINT_NEVER)
        self._pace = pace or Pace()
        self.scheduler = SchedulerCore(cluster=CLUSTER, limits=self._limits)
        self.agent = AgentCore(SimulatedCluster(nodes, behaviour, scaled.groups if scaled is not None else None))
        self.scaled = scaled
        cores: dict[str, Core] = {"scheduler": self.scheduler, "agent": self.agent}
        cores |= scaled.cores if scaled is not None else {}
        cores |= beside or {}
        super().__init__(
            CLUSTER,
            start=start,
            cores=cores,
            tick_ns=self._pace.step_ns,
            steps_max=STEPS_MAX,
            keeps_log=keeps_log,
            watch=watch,
        )

    def is_news(self, writer: str, fact: Fact) -> bool:
        """Spare decisions: the agent knows by itself when it is due, and the scheduler's pace is chosen."""
        if writer == "scheduler":
            return self._pace.thorough or fact.name not in QUIET
        return writer != "agent"

    def route(self, job: Job) -> None:
        """Let the job come to this cluster now."""
        self.write("federation", "job", job.id, "routed", JobRouted.model_construct(job=job, cluster=CLUSTER))

    def arrivals(self, jobs: Iterable[tuple[Instant, Job]]) -> Iterator[tuple[Instant, Action]]:
        """Return jobs with their moments, earliest first, as `moments` takes them."""
        for moment, job in jobs:
            yield moment, partial(self.route, job)

    def restart_scheduler(self) -> None:
        """Let another scheduler fold the log, which must be kept: what the old one remembered besides is gone."""
        self.scheduler = recover(SchedulerCore(cluster=CLUSTER, limits=self._limits), (), self.log)
        self.replace("scheduler", self.scheduler)


PRINCIPAL = "simulator"
SURVEY_ROUNDS = 4
"""Rounds of decisions in which the composer requests a survey of each fabric and gets its result."""


def join_nodes(engine: Engine) -> None:
    """Let every node join, now; none is released yet."""
    engine.settle_core("agent")


def survey_fabrics(engine: Engine) -> None:
    """Fabrics are looked at before anything scales: their pools, and what stands on machines, are known."""
    for _ in range(SURVEY_ROUNDS if "composer" in engine.cores else 0):
        engine.decide_once("composer")


def set_queue(engine: Engine, spec: QueueSpec, *, at: str) -> None:
    """Make or change a queue, now. at: where it stands, for errors. Raises InputError if the scheduler refuses it."""
    request = QueueChangeRequested(spec=spec, principal=PRINCIPAL)
    engine.write("federation", "queue", spec.name, "change-forwarded", request)
    for fact in engine.settle_core("scheduler", only=lambda draft: draft.kind == "queue"):
        if isinstance(fact.payload, QueueChangeRefused):
            raise InputError(f"{at}.{fact.payload.field}", fact.payload.reason)
