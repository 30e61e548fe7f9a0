"""Scheduler, health and upgrader over one log: whatever falls ill in a campaign, in the end all is used again."""

import random
from collections.abc import Iterable

import pytest

from kit.scheduler import VirtualScheduler
from muster.core import Fact
from muster.core.virtual import recover
from muster.health.core.config import HealthConfig
from muster.health.core.core import HealthCore
from muster.health.core.signals import FaultSignal
from muster.health.rule_files import built_in_rules
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

CHECKS = (CheckOrder(check="device-count"),)
DAY_S = 86_400.0
CODES = ("xid-119", "xid-94", "xid-48", "xid-63")


class Operated(VirtualScheduler):
    """A scheduler with health and upgrader beside it; its agent does what it is asked, and all checks pass."""

    def __init__(self, *, nodes: int) -> None:
        super().__init__(nodes=nodes)
        self.health = HealthCore(HealthConfig(rules=built_in_rules(), verify=CHECKS, verify_device=CHECKS))
        self.upgrader = UpgraderCore(UpgradeConfig(suites={"validate": Validation(CHECKS)}))
        for writer, core in (("health", self.health), ("upgrader", self.upgrader)):
            self.replace(writer, recover(core, (), self.log))
        self.watch = self._heed

    def sick(self, node: str, code: str) -> None:
        """A fault is seen on the node's first GPU."""
        self.health.verdicts.signals.add(FaultSignal(node, code, self.now, f"{node}-gpu-0"))
        self.settle()

    def campaign(self, name: str, running: str) -> None:
        """A person starts one on all nodes."""
        spec = CampaignSpec.model_validate(
            {"name": name, "component": "driver", "version": name, "max_unavailable": "2", "running": running}
        )
        asked = CampaignStartRequested(spec=spec, principal="ann")
        self.write("federation", "campaign", name, "start-forwarded", asked)
        self.settle()

    def start(self, jobs: Iterable[Job]) -> None:
        """Pods of jobs that were placed run."""
        for job in jobs:
            record = self.core.state.jobs.records.get(job.id)
            if record is not None and record.phase is Phase.PLACED:
                self.started(job, attempt=record.attempt)
        self.settle()

    def stuck(self) -> list[str]:
        """Nodes that are not used, units that are not well, campaigns that go on."""
        units = self.health.verdicts.state.units.values()
        return [
            *(name for name, record in self.core.state.nodes.items() if not record.usable),
            *(unit.name for unit in units if not unit.is_healthy),
            *(campaign.name for campaign in self.upgrader.state.live),
        ]

    def _heed(self, fact: Fact) -> None:
        node, payload = fact.subject_id, fact.payload
        match payload:
            case JobStopRequested(attempt=attempt):
                exited = PodsExited(attempt=attempt, outcome=PodsOutcome.STOPPED, ran_s=1.0)
                self.write("agent", "job", fact.subject_id, "pods-exited", exited)
            case NodeActionRequested(request_id=request_id, version=version):
                ended = NodeActionEnded(request_id=request_id, outcome=ActionOutcome.DONE, version=version)
                self.write("agent", "node", node, "action-ended", ended)
            case ChecksRequested(request_id=request_id, checks=checks):
                results = tuple(CheckResult(node=node, check=one.check, outcome=CheckOutcome.PASS) for one in checks)
                self.write(
                    "agent", "node", node, "checks-reported", ChecksReported(request_id=request_id, results=results)
                )
            case _:
                return


def test_a_node_that_falls_ill_while_its_turn_waits_for_a_job_is_repaired_and_then_upgraded() -> None:
    world = Operated(nodes=2)
    moves = Checkpointing(interval_s=1800)
    job = world.submit("long", gpus=8, total_run_time_s=7 * DAY_S, min_slice_s=60.0, checkpointing=moves)
    world.started(job)
    world.advance(300)
    world.campaign("drv", "move")
    world.sick("n0", "xid-79")
    world.advance(8 * DAY_S)
    world.exited(job, "succeeded", attempt=world.core.state.jobs.records[job.id].attempt)
    world.advance(DAY_S)
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
                world.advance(chance.choice([30.0, 300.0, 1900.0]))
    for _ in range(8):
        for job in jobs:
            world.start([job])
            record = world.core.state.jobs.records.get(job.id)
            if record is not None and record.phase is Phase.RUNNING:
                world.exited(job, "succeeded", attempt=record.attempt)
        world.advance(7200)
    world.advance(2 * DAY_S)
    assert world.stuck() == []
