"""Several clusters and their federation in virtual time: every core over its own log, by its own clock, over links that
are cut in either direction.

What the brokers do is done here without them: what the federation addresses to a cluster is sourced into that cluster's
log, what a cluster reports is copied into the federation's, each in order, and each only while that direction of its
link is there. Every site has a clock of its own rate; facts are stamped by the broker of the log that they stand in.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.fleet import regular_fleet
from muster.agent.core.simulated import SimulatedCluster
from muster.core import NS_PER_S, Core, Draft, Fact, Instant
from muster.core.virtual import VirtualCluster, recover
from muster.federation.core import FederationCore, MemberPlan
from muster.federation.core.copies import copy_of
from muster.scheduler.core import SchedulerCore
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.control import TermStarted
from muster.schemas.facts.federation import (
    ClusterDrainRequested,
    ClusterResumeRequested,
    JobRecalled,
    JobRerouteRequested,
)
from muster.schemas.facts.job import JobCancelRequested, JobEnded, JobRouted, JobSubmitted
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, JobSpec, TaskGroup
from muster.schemas.labels import RUN_S
from muster.schemas.registry import StreamRole, fact_type
from muster.schemas.routing import RoutingPolicy

START_NS = 2_000_000_000 * NS_PER_S
LOST_AFTER_S, MARGIN_S = 100.0, 20.0
DECISIONS_MAX = 2_000
QUICK = Behaviour(seed=3, start_s=1.0, run_s=60.0, job_failure_share=0.0)


def job(name: str, *, run_s: float = 60.0, gpus: int = 1, team: str = "lab", **spec: object) -> Job:
    """A job that runs for so long wherever it runs."""
    return Job(
        id=ids.job_id(team=team, principal="ada", idempotency_key=name),
        spec=JobSpec.model_validate(
            {
                "name": name,
                "team": team,
                "task_groups": (TaskGroup(gpus=gpus, cpu_milli=100, memory_mib=100),),
                "labels": {RUN_S: str(run_s)},
                **spec,
            }
        ),
        principal="ada",
        idempotency_key=name,
        body_hash="",
    )


class Site(VirtualCluster):
    """One log, the cores that fold it, and the clock that stamps it. make: new cores, by writer.

    rate: how much faster than true time the clock goes.
    """

    def __init__(self, name: str, role: StreamRole, make: Callable[[], dict[str, Core]], *, rate: float = 0.0) -> None:
        cluster = "" if role is StreamRole.FED else name
        super().__init__(cluster, start=Instant(START_NS), cores=make(), role=role, id_prefix=f"{name}-")
        self.make, self.rate = make, rate
        self._wakeup: tuple[Instant, int] | None = None

    def local(self, true_ns: int) -> Instant:
        """What its clock shows."""
        return Instant(START_NS + round((true_ns - START_NS) * (1 + self.rate)))

    def true(self, local: int) -> int:
        """When its clock shows that, in true time, or just after."""
        at = START_NS + round((local - START_NS) / (1 + self.rate))
        while self.local(at) < local:
            at += 1
        return at

    def step(self, *, ask_all: bool = False) -> list[Fact]:
        """Append one decision of each core that has news or is due: at most moments those of one site alone."""
        if not (ask_all or self._news or (self._wakeup is not None and self._wakeup[0] <= self.now)):
            return []
        facts = super().step(ask_all=ask_all)
        wakeups = (core.next_wakeup() for core in self.cores.values())
        earliest = min((wakeup for wakeup in wakeups if wakeup is not None), default=None)
        self._wakeup = None if earliest is None else (earliest, self.true(earliest))
        return facts

    def next_wakeup(self) -> int | None:
        """When the first of its cores is due, in true time, as they said after they last decided."""
        return None if self._wakeup is None else self._wakeup[1]

    def crash(self, *, trimmed: bool = False) -> None:
        """All its processes die, and others fold the log; or where it was trimmed, a checkpoint of this moment."""
        facts = self.snapshot() if trimmed else self.log
        for writer, core in self.make().items():
            self.replace(writer, recover(core, facts))


@dataclass
class Link:
    """Between the federation and one cluster. sent_down, sent_up: how far the other side's log was taken over.

    down_at, up_at: when the next message gets through, where the link is slow.
    """

    sent_down: int = 0
    sent_up: int = 0
    down_cuts: int = 0
    up_cuts: int = 0
    down_at: int = 0
    up_at: int = 0


class Federated:
    """center: the federation's site; cells: the clusters'. now: true time.

    message_s: of each message on a link in each direction, so that what waited behind a cut comes late and one by one.
    """

    def __init__(
        self,
        cells: Sequence[str] = ("east", "west"),
        *,
        rates: Sequence[float] = (),
        nodes: int = 2,
        gpus: int = 4,
        policy: dict[str, object] | None = None,
        lost_after_s: float = LOST_AFTER_S,
        message_s: float = 0.0,
    ) -> None:
        rated = [*rates, *([0.0] * (len(cells) + 1 - len(rates)))]
        plans = tuple(MemberPlan(name, lost_after_s) for name in cells)
        routing = RoutingPolicy.model_validate(policy or {})
        fleet = regular_fleet(
            nodes=nodes, gpus_per_node=gpus, gpu_model="H100", cpu_milli=64_000, memory_mib=500_000, rack_size=8,
            racks_per_block=8,
        )  # fmt: skip

        def center() -> dict[str, Core]:
            return {"federation": FederationCore(members=plans, policy=routing, margin_s=MARGIN_S)}

        def cell(name: str) -> Callable[[], dict[str, Core]]:
            return lambda: {
                "scheduler": SchedulerCore(cluster=name),
                "agent": AgentCore(SimulatedCluster(fleet, QUICK, None)),
            }

        self.center = Site("fed", StreamRole.FED, center, rate=rated[0])
        self.cells = {
            name: Site(name, StreamRole.LOG, cell(name), rate=rate) for name, rate in zip(cells, rated[1:], strict=True)
        }
        self.links = {name: Link() for name in cells}
        self.now = START_NS
        self.accepted: dict[str, Job] = {}
        self.is_away = False
        self._message_ns = round(message_s * NS_PER_S)
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._reports = 0
        self.ask("queue", "lab", "change-requested", QueueChangeRequested(spec=QueueSpec(name="lab"), principal="root"))

    # --- what people do, and what happens to links ---------------------------------------------------------------

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        """Do this so many true seconds after the start."""
        heapq.heappush(self._events, (START_NS + round(seconds * NS_PER_S), len(self._events), act))

    def ask(self, kind: str, subject_id: str, name: str, payload: Payload) -> Fact:
        return self._append(self.center, "gateway", Draft(kind, subject_id, name, payload))

    def submit(self, one: Job) -> None:
        self.accepted[one.id] = one
        self.ask("job", one.id, "submitted", JobSubmitted(job=one))

    def cancel(self, one: Job) -> None:
        self.ask("job", one.id, "cancel-requested", JobCancelRequested(principal="ada"))

    def reroute(self, one: Job, to: str = "") -> None:
        self.ask("job", one.id, "reroute-requested", JobRerouteRequested(principal="ada", to=to))

    def drain(self, cluster: str, *to: str) -> None:
        self.ask("cluster", cluster, "drain-requested", ClusterDrainRequested(principal="root", to=to))

    def resume(self, cluster: str) -> None:
        self.ask("cluster", cluster, "resume-requested", ClusterResumeRequested(principal="root"))

    def cut(self, cell: str, *, start_s: float, for_s: float, up: bool = True, down: bool = True) -> None:
        """These directions of the cell's link are gone from then on for so long; cuts may overlap."""
        link = self.links[cell]

        def change(by: int) -> None:
            link.up_cuts += by * up
            link.down_cuts += by * down

        self.at(start_s, lambda: change(1))
        self.at(start_s + for_s, lambda: change(-1))

    def take_away_center(self, *, start_s: float, for_s: float) -> None:
        """No process of the federation runs from then on for so long; its log takes what is said."""

        def leave() -> None:
            self.is_away = True

        def come() -> None:
            self.is_away = False
            self.crash_center()

        self.at(start_s, leave)
        self.at(start_s + for_s, come)

    def crash_center(self, *, trimmed: bool = False) -> None:
        """Another federation folds its log, or a checkpoint, and says that it leads now."""
        self.center.crash(trimmed=trimmed)
        started = TermStarted(term=len(self.center.log), holder="b")
        self._append(self.center, "federation", Draft("log", "federation", "term-started", started))

    # --- how time passes -----------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let true time pass up to so many seconds after the start."""
        end = START_NS + round(seconds * NS_PER_S)
        while True:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self._settle()
            due = self._next()
            if due is None or due > end:
                break
            self.now = due
        self.now = max(self.now, end)

    def _settle(self) -> None:
        for _ in range(DECISIONS_MAX):
            if not (self._decide() | self._carry()):
                return
        raise AssertionError("decisions never end")

    def _decide(self) -> bool:
        """Every core with news, or whose moment has come, decides once."""
        decided = False
        for site in self._living():
            site.now = site.local(self.now)
            decided |= bool(site.step())
        return decided

    def _append(self, site: Site, writer: str, draft: Draft, *, fact_id: str = "") -> Fact:
        site.now = site.local(self.now)
        return site.append(writer, draft, fact_id=fact_id)

    def _living(self) -> tuple[Site, ...]:
        cells = tuple(self.cells.values())
        return cells if self.is_away else (self.center, *cells)

    def _carry(self) -> bool:
        """What links let through is taken over, in order."""
        moved = False
        for name, link in self.links.items():
            cell = self.cells[name]
            while not link.down_cuts and link.sent_down < len(self.center.log) and link.down_at <= self.now:
                if self._source(self.center.log[link.sent_down], cell):
                    moved, link.down_at = True, self.now + self._message_ns
                link.sent_down += 1
            while not self._is_mute(link) and link.sent_up < len(cell.log) and link.up_at <= self.now:
                if self._report(cell.log[link.sent_up]):
                    moved, link.up_at = True, self.now + self._message_ns
                link.sent_up += 1
        return moved

    def _is_mute(self, link: Link) -> bool:
        return bool(link.up_cuts) or self.is_away

    def _source(self, fact: Fact, cell: Site) -> bool:
        if fact.cluster != cell.name or fact.writer != "federation":
            return False
        if fact_type(StreamRole.LOG, "federation", fact.kind, fact.name) is None:
            return False
        again = Draft(fact.kind, fact.subject_id, fact.name, fact.payload, fact.causes, fact.trace)
        self._append(cell, "federation", again, fact_id=fact.id)
        return True

    def _report(self, fact: Fact) -> bool:
        if fact_type(StreamRole.FED_UP, fact.writer, fact.kind, fact.name) is None or fact.writer != "scheduler":
            return False
        self._reports += 1
        copy = copy_of(replace(fact, seq=self._reports))
        if copy is not None:
            self._append(self.center, "federation", copy)
        return copy is not None

    def _next(self) -> int | None:
        moments = [self._events[0][0]] if self._events else []
        for site in self._living():
            wakeup = site.next_wakeup()
            if wakeup is not None:
                moments.append(max(wakeup, self.now + 1))
        for name, link in self.links.items():
            if not link.down_cuts and link.sent_down < len(self.center.log):
                moments.append(max(link.down_at, self.now + 1))
            if not self._is_mute(link) and link.sent_up < len(self.cells[name].log):
                moments.append(max(link.up_at, self.now + 1))
        return min(moments, default=None)

    # --- what must be so -----------------------------------------------------------------------------------------

    @property
    def federation(self) -> FederationCore:
        core = self.center.cores["federation"]
        assert isinstance(core, FederationCore)
        return core

    def where(self, one: Job) -> str:
        return self.federation.state.jobs[one.id].cluster

    def ends(self) -> dict[str, int]:
        """How often each job ended, as whoever reads the federation's log sees it.

        An assignment that was taken back has no say any more: its late end, once the link is back, is a cluster's word
        of what it did before it heard, beside the end that the federation wrote.
        """
        found = dict.fromkeys(self.accepted, 0)
        assignment: dict[str, int] = {}
        for fact in self.center.log:
            match fact.payload:
                case JobRouted(assignment=number):
                    assignment[fact.subject_id] = number
                case JobRecalled(assignment=number) if fact.name == "drop-forwarded":
                    assignment[fact.subject_id] = max(number + 1, assignment.get(fact.subject_id, 1))
                case JobEnded(assignment=number) if assignment.get(fact.subject_id) == number:
                    found[fact.subject_id] += 1
                case _ if fact.kind == "job" and fact.name == "cancelled":
                    found[fact.subject_id] += 1
        return found

    def runs(self) -> dict[str, list[tuple[int, int, str]]]:
        """When each job had its places, by true time: from, until, and in which cluster. Until its pods were gone."""
        found: dict[str, list[tuple[int, int, str]]] = {}
        for name, cell in self.cells.items():
            open_since: dict[str, int] = {}
            for fact in cell.log:
                if fact.kind == "job" and fact.name == "placed":
                    open_since[fact.subject_id] = cell.true(fact.time)
                elif fact.kind == "job" and fact.name == "pods-exited":
                    began = open_since.pop(fact.subject_id)
                    found.setdefault(fact.subject_id, []).append((began, cell.true(fact.time), name))
            for job_id, began in open_since.items():
                found.setdefault(job_id, []).append((began, self.now, name))
        return {job_id: sorted(some) for job_id, some in found.items()}

    def violations(self) -> list[str]:
        """Jobs that ran in two clusters at once, and jobs that did not end exactly once."""
        found = [
            f"{self.accepted[job_id].spec.name} was on {first[2]} and on {second[2]} at once"
            for job_id, some in self.runs().items()
            for first, second in itertools.pairwise(some)
            if first[1] > second[0] and first[2] != second[2]
        ]
        found += [f"{self.accepted[i].spec.name} ended {n} times" for i, n in self.ends().items() if n != 1]
        return found
