"""A cluster in virtual time for the upgrader's tests: its core, beside a scheduler and an agent that are made of cloth.

The scheduler of cloth gives a node once nothing holds it and its moment has come, and moves jobs that allow it. The
agent of cloth takes `action_s` for an action and `check_s` for checks, and fails where it is told to.
"""

import heapq
from collections.abc import Callable, Iterable
from itertools import count

from muster.core import NS_PER_S, Draft, Fact, Instant, after
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.cordons import CordonRequested
from muster.schemas.facts.job import JobFinished, JobPlaced, JobQueued, JobRouted, JobRunning, PodsExited, PodsOutcome
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLost,
    NodeReturned,
    Released,
    RunningJobs,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    ChecksRequested,
    NodeActionEnded,
    NodeActionRequested,
)
from muster.schemas.facts.upgrade import (
    CampaignChangeRequested,
    CampaignSpec,
    CampaignStartRequested,
    Step,
)
from muster.schemas.job import Checkpointing, Job, JobSpec, Slot, TaskGroup
from muster.upgrader.core import UpgraderCore
from muster.upgrader.core.config import UpgradeConfig, Validation

CLUSTER = "atlas"
START = Instant(1_000_000 * NS_PER_S)
HOUR, DAY = 3600.0, 86_400.0
OLD, NEW = "570.1", "580.105"
CONFIG = UpgradeConfig(suites={"validate": Validation((CheckOrder(check="device-count"),))})


def node_named(number: int) -> str:
    """Nodes are n000, n001, ..."""
    return f"n{number:03d}"


def a_campaign(name: str = "driver", **values: object) -> CampaignSpec:
    """An upgrade of the driver of all nodes, one at a time."""
    return CampaignSpec.model_validate(
        {"name": name, "component": "driver", "version": NEW, "max_unavailable": "1"} | values
    )


class World:
    """One cluster of nodes with 8 GPUs each, 4 to a rack. log: all facts. mute: the agent answers nothing.

    bad: "action", or the check, that fails on a node.
    """

    def __init__(
        self, nodes: int = 4, *, config: UpgradeConfig = CONFIG, action_s: float = 600, check_s: float = 60
    ) -> None:
        self.config, self.core = config, UpgraderCore(config)
        self.now, self.log = START, list[Fact]()
        self.bad = dict[str, str]()
        self.mute = False
        self.action_s, self.check_s = action_s, check_s
        self.jobs = dict[str, Job]()
        self.slots = dict[str, tuple[Slot, ...]]()
        self.asked = dict[str, dict[str, WithholdRequested]]()
        self.given = dict[str, set[str]]()
        self._inbox: list[tuple[Instant, int, Callable[[], None]]] = []
        self._number = count()
        for number in range(nodes):
            self.join(node_named(number), rack=f"r{number // 4}")

    # --- what is said --------------------------------------------------------------------------------------------

    def say(
        self, writer: str, kind: str, subject: str, name: str, payload: Payload, *, causes: Iterable[str] = ()
    ) -> Fact:
        """Append a fact; the core folds it."""
        seq = len(self.log) + 1
        fact = Fact(f"f{seq}", seq, self.now, CLUSTER, writer, kind, subject, name, tuple(causes), "", payload)
        self.log.append(fact)
        self.core.apply(fact)
        return fact

    def join(self, name: str, *, rack: str = "r0", version: str = OLD, **values: object) -> None:
        """A node joins, or is described otherwise."""
        described = {
            "cpu_milli": 1000, "memory_mib": 1000, "gpu_uuids": tuple(f"{name}-g{index}" for index in range(8)),
            "domains": (("rack", rack),), "versions": (("driver", version),),
        } | values  # fmt: skip
        self.say("agent", "node", name, "joined", NodeJoined.model_validate(described))

    def lose(self, name: str) -> None:
        """The node does not answer."""
        self.say("agent", "node", name, "lost", NodeLost())

    def find(self, name: str) -> None:
        """It answers again."""
        self.say("agent", "node", name, "returned", NodeReturned())

    def start(self, spec: CampaignSpec) -> None:
        """A person starts a campaign."""
        self.say(
            "federation", "campaign", spec.name, "start-forwarded", CampaignStartRequested(spec=spec, principal="ann")
        )

    def ask(self, what: str, name: str = "driver", reason: str = "") -> None:
        """A person pauses, resumes or aborts one."""
        asked = CampaignChangeRequested(principal="ann", reason=reason)
        self.say("federation", "campaign", name, f"{what}-forwarded", asked)

    def person(self, what: str, node: str) -> None:
        """A person cordons, drains or resumes a node."""
        self.say("federation", "node", node, f"{what}-forwarded", CordonRequested(principal="bob"))

    # --- jobs ----------------------------------------------------------------------------------------------------

    def run_job(
        self,
        *nodes: str,
        limit_s: float = 7 * DAY,
        ends_s: float | None = None,
        gpus: int = 8,
        moves: bool = False,
        slice_s: float = HOUR,
    ) -> str:
        """A job begins on these nodes. ends_s: then it succeeds; None: at its limit. moves: it may be moved."""
        job_id = ids.job_id(team="ml", principal="ann", idempotency_key=f"job-{len(self.jobs)}")
        spec = JobSpec(
            name="train",
            team="ml",
            task_groups=(TaskGroup(replicas=len(nodes), gpus=gpus),),
            total_run_time_s=limit_s,
            min_slice_s=slice_s,
            checkpointing=Checkpointing() if moves else None,
        )
        job = Job(id=job_id, spec=spec, principal="ann", idempotency_key="k", body_hash="")
        self.jobs[job_id] = job
        slots = tuple(
            Slot(group=0, replica=replica, node=node, devices=tuple(range(gpus)), gpu_milli=1000)
            for replica, node in enumerate(nodes)
        )
        self.say("federation", "job", job_id, "routed", JobRouted(job=job, cluster=CLUSTER))
        self.say("scheduler", "job", job_id, "queued", JobQueued(queue="ml", attempt=1))
        self.say("scheduler", "job", job_id, "placed", JobPlaced(attempt=1, slots=slots, slice_s=slice_s))
        self.say("scheduler", "job", job_id, "running", JobRunning(attempt=1))
        self.slots[job_id] = slots
        self.at(limit_s if ends_s is None else ends_s, lambda: self.end_job(job_id))
        return job_id

    def end_job(self, job_id: str) -> None:
        """It ends, if it runs."""
        if self.slots.pop(job_id, None) is not None:
            self.say("scheduler", "job", job_id, "succeeded", JobFinished(attempt=1))

    def may_start(self, node: str, limit_s: float) -> bool:
        """Whether a job of this limit may start on the node: as the scheduler reads what was asked."""
        return all(after(self.now, limit_s) <= wish.from_at for wish in self.asked.get(node, {}).values())

    # --- how time passes -----------------------------------------------------------------------------------------

    def at(self, in_s: float, act: Callable[[], None]) -> None:
        """Do this in so many seconds."""
        heapq.heappush(self._inbox, (after(self.now, in_s), next(self._number), act))

    def run(self, for_s: float) -> None:
        """Let time pass."""
        until = after(self.now, for_s)
        while True:
            while self._inbox and self._inbox[0][0] <= self.now:
                heapq.heappop(self._inbox)[2]()
            for _ in range(10_000):
                if not (self._say_all(self.core.decide(self.now)) or self._grant()):
                    break
            else:
                raise AssertionError("the core never comes to rest")
            moments = [self._inbox[0][0]] if self._inbox else []
            moments += [wake] if (wake := self.core.next_wakeup()) is not None else []
            moments += [Instant(w.from_at) for of in self.asked.values() for w in of.values() if w.from_at > self.now]
            moment = max(min(moments, default=until), Instant(self.now + 1))
            if moment > until:
                self.now = until
                return
            self.now = moment

    def _say_all(self, drafts: list[Draft]) -> int:
        for draft in drafts:
            fact = self.say("upgrader", draft.kind, draft.subject_id, draft.name, draft.payload, causes=draft.causes)
            self._heed(fact)
        return len(drafts)

    def _heed(self, fact: Fact) -> None:
        node = fact.subject_id
        match fact.payload:
            case WithholdRequested() as asked:
                self.asked.setdefault(node, {})[asked.request_id] = asked
            case WithholdWithdrawn(request_id=request_id, after_withheld=knew):
                if request_id in self.given.get(node, ()) and not knew:
                    return
                self.asked.get(node, {}).pop(request_id, None)
                if request_id in self.given.get(node, ()):
                    self.given[node].discard(request_id)
                    self.say("scheduler", "node", node, "released", Released())
            case NodeActionRequested() as asked if not self.mute:
                self.at(self.action_s, lambda: self._acted(node, asked))
            case ChecksRequested() as checks if not self.mute:
                self.at(self.check_s, lambda: self._checked(node, checks))
            case _:
                return

    def _acted(self, node: str, asked: NodeActionRequested) -> None:
        bad = self.bad.get(node) == "action" and asked.version == NEW
        outcome = ActionOutcome.FAILED if bad else ActionOutcome.DONE
        self.say(
            "agent", "node", node, "action-ended",
            NodeActionEnded(request_id=asked.request_id, outcome=outcome, detail="no module" if bad else ""),
        )  # fmt: skip
        if not bad and asked.version:
            self.join(node, rack=f"r{int(node[1:]) // 4}", version=asked.version)

    def _checked(self, node: str, asked: ChecksRequested) -> None:
        outcome = CheckOutcome.FAIL if self.bad.get(node) == asked.checks[0].check else CheckOutcome.PASS
        result = CheckResult(node=node, check=asked.checks[0].check, outcome=outcome)
        self.say(
            "agent", "node", node, "checks-reported", ChecksReported(request_id=asked.request_id, results=(result,))
        )

    def _grant(self) -> int:
        """The scheduler of cloth: moves those who may be moved, and gives what is empty."""
        said = 0
        for node, wishes in self.asked.items():
            for request_id, wish in wishes.items():
                if wish.from_at > self.now or request_id in self.given.get(node, ()):
                    continue
                holders = [job for job, slots in self.slots.items() if any(slot.node == node for slot in slots)]
                if wish.running is RunningJobs.MOVE:
                    for job in holders:
                        said += self._move(job)
                    holders = [job for job in holders if job in self.slots]
                if not holders:
                    self.given.setdefault(node, set()).add(request_id)
                    self.say("scheduler", "node", node, "withheld", Withheld(request_id=request_id))
                    said += 1
        return said

    def _move(self, job_id: str) -> bool:
        if self.jobs[job_id].spec.checkpointing is None:
            return False
        del self.slots[job_id]
        self.say("agent", "job", job_id, "pods-exited", PodsExited(attempt=1, outcome=PodsOutcome.STOPPED))
        self.say("scheduler", "job", job_id, "queued", JobQueued(queue="ml", attempt=2))
        return True

    # --- what is asked of it -------------------------------------------------------------------------------------

    def steps(self, node: str) -> list[str]:
        """The steps of a node, as told."""
        return [
            fact.payload.step.value  # type: ignore[attr-defined]
            for fact in self.log
            if fact.name == "upgrade-stepped" and fact.subject_id == node
        ]

    def step(self, node: str) -> Step:
        """Where it stands, as told last."""
        return Step((self.steps(node) or [Step.PLANNED])[-1])

    def said(self, name: str) -> list[Payload]:
        """Bodies of all facts of campaigns of this name."""
        return [fact.payload for fact in self.log if fact.kind == "campaign" and fact.name == name]
