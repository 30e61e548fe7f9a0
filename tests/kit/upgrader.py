"""The upgrader's core in virtual time, beside a scheduler and an agent that the test plays.

The scheduler gives a node once nothing holds it and its moment has come, and moves jobs that allow it. The agent takes
`action_s` for an action and `check_s` for checks, and fails where it is told to.
"""

from kit.log import CLUSTER, VirtualService
from muster.core import Fact, Instant, after
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobFinished, JobPlaced, JobQueued, JobRouted, JobRunning, PodsExited, PodsOutcome
from muster.schemas.facts.node import (
    CordonRequested,
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


class VirtualUpgrader(VirtualService[UpgraderCore]):
    """Nodes with 8 GPUs each, 4 to a rack. mute: the agent answers nothing.

    bad: "action", or the check, that fails on a node. jobs, slots: that were started, and what they hold.
    asked, given: requests to withhold by node, and those that the scheduler gave.
    """

    def __init__(
        self, nodes: int = 4, *, config: UpgradeConfig = CONFIG, action_s: float = 600, check_s: float = 60
    ) -> None:
        super().__init__("upgrader", UpgraderCore(config))
        self.config = config
        self.bad = dict[str, str]()
        self.mute = False
        self.action_s, self.check_s = action_s, check_s
        self.jobs = dict[str, Job]()
        self.slots = dict[str, tuple[Slot, ...]]()
        self.asked = dict[str, dict[str, WithholdRequested]]()
        self.given = dict[str, set[str]]()
        self.watch = self._heed
        for number in range(nodes):
            self.join(node_named(number), rack=f"r{number // 4}")

    # --- what happens --------------------------------------------------------------------------------------------

    def join(self, name: str, *, rack: str = "r0", version: str = OLD, **values: object) -> None:
        """A node joins, or is described otherwise."""
        described = {
            "cpu_milli": 1000, "memory_mib": 1000, "gpu_uuids": tuple(f"{name}-g{index}" for index in range(8)),
            "domains": (("rack", rack),), "versions": (("driver", version),),
        } | values  # fmt: skip
        self.write("agent", "node", name, "joined", NodeJoined.model_validate(described))

    def lose(self, name: str) -> None:
        """The node does not answer."""
        self.write("agent", "node", name, "lost", NodeLost())

    def find(self, name: str) -> None:
        """It answers again."""
        self.write("agent", "node", name, "returned", NodeReturned())

    def start(self, spec: CampaignSpec) -> None:
        """A person starts a campaign."""
        self.write(
            "federation", "campaign", spec.name, "start-forwarded", CampaignStartRequested(spec=spec, principal="ann")
        )

    def ask(self, what: str, name: str = "driver", reason: str = "") -> None:
        """A person pauses, resumes or aborts one."""
        asked = CampaignChangeRequested(principal="ann", reason=reason)
        self.write("federation", "campaign", name, f"{what}-forwarded", asked)

    def person(self, what: str, node: str) -> None:
        """A person cordons, drains or resumes a node."""
        self.write("federation", "node", node, f"{what}-forwarded", CordonRequested(principal="bob"))

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
        self.write("federation", "job", job_id, "routed", JobRouted(job=job, cluster=CLUSTER))
        self.write("scheduler", "job", job_id, "queued", JobQueued(queue="ml", attempt=1))
        self.write("scheduler", "job", job_id, "placed", JobPlaced(attempt=1, slots=slots, slice_s=slice_s))
        self.write("scheduler", "job", job_id, "running", JobRunning(attempt=1))
        self.slots[job_id] = slots
        self.at(after(self.now, limit_s if ends_s is None else ends_s), lambda: self.end_job(job_id))
        return job_id

    def end_job(self, job_id: str) -> None:
        """It ends, if it runs."""
        if self.slots.pop(job_id, None) is not None:
            self.write("scheduler", "job", job_id, "succeeded", JobFinished(attempt=1))

    def may_start(self, node: str, limit_s: float) -> bool:
        """Whether a job of this limit may start on the node: as the scheduler reads what was asked."""
        return all(after(self.now, limit_s) <= request.from_at for request in self.asked.get(node, {}).values())

    # --- how time passes -----------------------------------------------------------------------------------------

    def step(self, *, ask_all: bool = False) -> list[Fact]:
        """Decide; where nothing is decided, let the scheduler give."""
        return super().step(ask_all=ask_all) or self._grant()

    def next_moment(self) -> Instant | None:
        """As it is, or when the scheduler may give something."""
        moments = [Instant(request.from_at) for of in self.asked.values() for request in of.values()]
        moments = [moment for moment in moments if moment > self.now]
        due = super().next_moment()
        return min(moments if due is None else [due, *moments], default=None)

    def _heed(self, fact: Fact) -> None:
        node = fact.subject_id
        if fact.writer != "upgrader":
            return
        match fact.payload:
            case WithholdRequested() as asked:
                self.asked.setdefault(node, {})[asked.request_id] = asked
            case WithholdWithdrawn(request_id=request_id, after_withheld=knew):
                if request_id in self.given.get(node, ()) and not knew:
                    return
                self.asked.get(node, {}).pop(request_id, None)
                if request_id in self.given.get(node, ()):
                    self.given[node].discard(request_id)
                    self.write("scheduler", "node", node, "released", Released())
            case NodeActionRequested() as asked if not self.mute:
                self.at(after(self.now, self.action_s), lambda: self._acted(node, asked))
            case ChecksRequested() as checks if not self.mute:
                self.at(after(self.now, self.check_s), lambda: self._checked(node, checks))
            case _:
                return

    def _acted(self, node: str, asked: NodeActionRequested) -> None:
        bad = self.bad.get(node) == "action" and asked.version == NEW
        outcome = ActionOutcome.FAILED if bad else ActionOutcome.DONE
        self.write(
            "agent", "node", node, "action-ended",
            NodeActionEnded(request_id=asked.request_id, outcome=outcome, detail="no module" if bad else ""),
        )  # fmt: skip
        if not bad and asked.version:
            self.join(node, rack=f"r{int(node[1:]) // 4}", version=asked.version)

    def _checked(self, node: str, asked: ChecksRequested) -> None:
        outcome = CheckOutcome.FAIL if self.bad.get(node) == asked.checks[0].check else CheckOutcome.PASS
        result = CheckResult(node=node, check=asked.checks[0].check, outcome=outcome)
        self.write(
            "agent", "node", node, "checks-reported", ChecksReported(request_id=asked.request_id, results=(result,))
        )

    def _grant(self) -> list[Fact]:
        """The scheduler moves those who may be moved, and gives what is empty."""
        facts: list[Fact] = []
        for node, requests in self.asked.items():
            for request_id, request in requests.items():
                if request.from_at > self.now or request_id in self.given.get(node, ()):
                    continue
                holders = [job for job, slots in self.slots.items() if any(slot.node == node for slot in slots)]
                if request.running is RunningJobs.MOVE:
                    for job in holders:
                        facts += self._move(job)
                    holders = [job for job in holders if job in self.slots]
                if not holders:
                    self.given.setdefault(node, set()).add(request_id)
                    facts.append(self.write("scheduler", "node", node, "withheld", Withheld(request_id=request_id)))
        return facts

    def _move(self, job_id: str) -> list[Fact]:
        if self.jobs[job_id].spec.checkpointing is None:
            return []
        del self.slots[job_id]
        exited = PodsExited(attempt=1, outcome=PodsOutcome.STOPPED)
        return [
            self.write("agent", "job", job_id, "pods-exited", exited),
            self.write("scheduler", "job", job_id, "queued", JobQueued(queue="ml", attempt=2)),
        ]

    # --- what is seen -------------------------------------------------------------------------------------

    def steps(self, node: str) -> list[str]:
        """The steps of a node, as told."""
        return [
            fact.payload.step.value  # type: ignore[attr-defined]
            for fact in self.log
            if fact.name == "upgrade-stepped" and fact.subject_id == node
        ]

    def step_of(self, node: str) -> Step:
        """Where it stands, as told last."""
        return Step((self.steps(node) or [Step.PLANNED])[-1])

    def payloads(self, name: str) -> list[Payload]:
        """Bodies of all facts of campaigns of this name."""
        return [fact.payload for fact in self.log if fact.kind == "campaign" and fact.name == name]
