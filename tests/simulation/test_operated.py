"""Scheduler, health and upgrader over one log: whatever falls ill in a campaign, in the end all is used again."""

import random
from collections.abc import Iterable

import pytest

from muster.core import Fact, after
from muster.health.core.config import HealthConfig
from muster.health.core.core import HealthCore
from muster.health.core.sightings import Sighting
from muster.health.rule_files import built_in_rules
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobStopRequested, PodsExited, PodsOutcome
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
from muster.schemas.facts.upgrade import CampaignSpec, CampaignStartRequested
from muster.schemas.job import Checkpointing, Job, Phase
from muster.upgrader.core import UpgraderCore
from muster.upgrader.core.config import UpgradeConfig, Validation
from unit.scheduler.world import World

CHECKS = (CheckOrder(check="device-count"),)
DAY_S = 86_400.0
CODES = ("xid-119", "xid-94", "xid-48", "xid-63")


class Operated(World):
    """The scheduler's world with health and upgrader in it; its agent does what it is asked, and all checks pass."""

    def __init__(self, *, nodes: int) -> None:
        self.health = HealthCore(HealthConfig(rules=built_in_rules(), verify=CHECKS, verify_device=CHECKS))
        self.upgrader = UpgraderCore(UpgradeConfig(suites={"validate": Validation(CHECKS)}))
        super().__init__(nodes=nodes)

    def say(
        self, writer: str, kind: str, subject_id: str, name: str, payload: Payload, *, causes: Iterable[str] = (),
        trace: str = "",
    ) -> Fact:  # fmt: skip
        fact = super().say(writer, kind, subject_id, name, payload, causes=causes, trace=trace)
        self.health.apply(fact)
        self.upgrader.apply(fact)
        return fact

    def run(self) -> None:
        for _ in range(200):
            before = len(self.log)
            for writer, core in (("scheduler", self.core), ("health", self.health), ("upgrader", self.upgrader)):
                for draft in core.decide(self.now):
                    self._heed(
                        self.say(writer, draft.kind, draft.subject_id, draft.name, draft.payload, causes=draft.causes)
                    )
            if len(self.log) == before:
                return
        raise AssertionError(f"they never come to rest: {[fact.name for fact in self.log[-6:]]}")

    def pass_time(self, for_s: float, *, step_s: float = 60.0) -> None:
        """Let time pass."""
        end = after(self.now, for_s)
        while self.now < end:
            self.now = min(end, after(self.now, step_s))
            self.run()

    def sick(self, node: str, code: str) -> None:
        """A fault is seen on the node's first GPU."""
        self.health.verdicts.sightings.add(Sighting(node, code, self.now, f"{node}-gpu-0"))
        self.run()

    def campaign(self, name: str, running: str) -> None:
        """A person starts one on all nodes."""
        spec = CampaignSpec.model_validate(
            {"name": name, "component": "driver", "version": name, "max_unavailable": "2", "running": running}
        )
        asked = CampaignStartRequested(spec=spec, principal="ann")
        self.say("federation", "campaign", name, "start-forwarded", asked)
        self.run()

    def start(self, jobs: Iterable[Job]) -> None:
        """Pods of jobs that were placed run."""
        for job in jobs:
            record = self.core.state.jobs.records.get(job.id)
            if record is not None and record.phase is Phase.PLACED:
                self.started(job, attempt=record.attempt)
        self.run()

    def stuck(self) -> list[str]:
        """Nodes that are not used, units that are not well, campaigns that go on."""
        units = self.health.verdicts.state.units.values()
        return [
            *(name for name, record in self.core.state.books.nodes.items() if not record.usable),
            *(unit.name for unit in units if not unit.is_healthy),
            *(campaign.name for campaign in self.upgrader.state.live),
        ]

    def _heed(self, fact: Fact) -> None:
        node, payload = fact.subject_id, fact.payload
        match payload:
            case JobStopRequested(attempt=attempt):
                exited = PodsExited(attempt=attempt, outcome=PodsOutcome.STOPPED, ran_s=1.0)
                self.say("agent", "job", fact.subject_id, "pods-exited", exited)
            case NodeActionRequested(request_id=request_id, version=version):
                ended = NodeActionEnded(request_id=request_id, outcome=ActionOutcome.DONE, version=version)
                self.say("agent", "node", node, "action-ended", ended)
            case ChecksRequested(request_id=request_id, checks=checks):
                results = tuple(CheckResult(node=node, check=one.check, outcome=CheckOutcome.PASS) for one in checks)
                self.say(
                    "agent", "node", node, "checks-reported", ChecksReported(request_id=request_id, results=results)
                )
            case _:
                return


def test_a_node_that_falls_ill_while_its_turn_waits_for_a_job_is_repaired_and_then_upgraded() -> None:
    world = Operated(nodes=2)
    moves = Checkpointing(interval_s=1800)
    job = world.submit("long", gpus=8, total_run_time_s=7 * DAY_S, min_slice_s=60.0, checkpointing=moves)
    world.started(job)
    world.pass_time(300)
    world.campaign("drv", "move")
    world.sick("n0", "xid-79")
    world.pass_time(8 * DAY_S, step_s=3600.0)
    world.exited(job, "succeeded", attempt=world.core.state.jobs.records[job.id].attempt)
    world.pass_time(DAY_S, step_s=3600.0)
    assert world.stuck() == []


@pytest.mark.parametrize("seed", [2, 5, 33])
def test_whatever_falls_ill_in_campaigns_everything_is_used_again_in_the_end(seed: int) -> None:
    chance, world = random.Random(seed), Operated(nodes=4)
    jobs = list[Job]()
    for number in range(30):
        match chance.choice(["job", "job", "start", "sick", "campaign", "time", "time"]):
            case "job":
                moves = Checkpointing(interval_s=600) if chance.random() < 0.5 else None
                jobs.append(
                    world.submit(
                        f"j{number}", gpus=chance.choice([1, 4, 8]), total_run_time_s=chance.choice([3600.0, DAY_S]),
                        min_slice_s=60.0,
                        checkpointing=moves,
                    )
                )  # fmt: skip
            case "start":
                world.start(jobs)
            case "sick":
                world.sick(f"n{chance.randrange(2)}", chance.choice(CODES))
            case "campaign" if not world.upgrader.state.live:
                world.campaign(f"c{number}", chance.choice(["move", "finish"]))
            case _:
                world.pass_time(chance.choice([30.0, 300.0, 1900.0]))
    for _ in range(8):
        for job in jobs:
            world.start([job])
            record = world.core.state.jobs.records.get(job.id)
            if record is not None and record.phase is Phase.RUNNING:
                world.exited(job, "succeeded", attempt=record.attempt)
        world.pass_time(7200, step_s=300)
    world.pass_time(2 * DAY_S, step_s=3600.0)
    assert world.stuck() == []
