"""Jobs that are checked before their first step, on the simulated cluster, in virtual time."""

import pytest

from kit.agent import QUICK, VirtualAgent, fleet_of, job, job_id, slot
from muster.core import Draft, Fact
from muster.core.settings import SimulatedWorkSettings
from muster.schemas.facts.job import JobPlaced, JobRunning, JobState, PodsExited, PodsStarted
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, ChecksReported, PreflightPlan
from muster.schemas.job import Checkpointing, Job, JobSpec, Phase, Slot, TaskGroup
from muster.schemas.labels import PREFLIGHT, RUN_S

PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"), CheckOrder(check="gpu-health")))
BAD = QUICK.model_copy(update={"work": SimulatedWorkSettings(bad_nodes={"gpu-0002": "gpu-health"})})


def wishing(request: str) -> Job:
    plain = job(1, run_s=30.0)
    return plain.model_copy(
        update={"spec": plain.spec.model_copy(update={"labels": {**plain.spec.labels, PREFLIGHT: request}})}
    )


def begin(agent: VirtualAgent, wanted: Job, *slots: Slot, attempt: int = 1) -> None:
    """Placed with a plan, and ten seconds later."""
    agent.settle()
    if attempt == 1:
        agent.route(wanted)
    placed = JobPlaced(attempt=attempt, slots=slots or (slot(),), preflight=PLAN)
    agent.write("scheduler", "job", wanted.id, "placed", placed)
    agent.advance(10)


def allow(agent: VirtualAgent, wanted: Job, *, attempt: int = 1) -> Fact:
    return agent.write("scheduler", "job", wanted.id, "running", JobRunning(attempt=attempt, preflight="quick"))


def found(agent: VirtualAgent) -> list[tuple[str, str, CheckOutcome]]:
    payloads = [fact.payload for fact in agent.facts("checks-reported")]
    results = [one for payload in payloads if isinstance(payload, ChecksReported) for one in payload.results]
    return [(one.node, one.check, one.outcome) for one in results]


def test_checks_are_reported_after_the_start_and_the_run_waits_for_its_gate() -> None:
    agent = VirtualAgent()
    wanted = job(1, run_s=30.0)
    begin(agent, wanted)
    assert agent.told(wanted.id) == ["pods-started", "checks-reported"]
    agent.advance(1000)
    assert agent.told(wanted.id) == ["pods-started", "checks-reported"]
    allow(agent, wanted)
    agent.advance(29)
    assert agent.told(wanted.id) == ["pods-started", "checks-reported"]
    agent.advance(2)
    (exited,) = agent.facts("pods-exited")
    assert isinstance(exited.payload, PodsExited)
    assert exited.payload.ran_s == 30.0


def test_the_report_is_caused_by_the_start_and_carries_the_trace_of_the_job() -> None:
    agent = VirtualAgent()
    wanted = job(1)
    begin(agent, wanted)
    (started,), (report,) = agent.facts("pods-started"), agent.facts("checks-reported")
    assert report.causes == (started.id,)
    assert report.trace == wanted.trace


def test_a_job_without_a_plan_runs_when_its_pods_do() -> None:
    agent = VirtualAgent()
    wanted = job(1, run_s=30.0)
    agent.settle()
    agent.launch(wanted)
    agent.advance(40)
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]


def test_a_bad_node_fails_its_check_and_only_there() -> None:
    agent = VirtualAgent(behaviour=BAD)
    begin(agent, job(1), slot(1), slot(2))
    assert found(agent) == [
        ("gpu-0001", "device-count", CheckOutcome.PASS),
        ("gpu-0001", "gpu-health", CheckOutcome.PASS),
        ("gpu-0002", "device-count", CheckOutcome.PASS),
        ("gpu-0002", "gpu-health", CheckOutcome.FAIL),
    ]


@pytest.mark.parametrize(("wish", "outcome"), [("fail", CheckOutcome.FAIL), ("cannot-run", CheckOutcome.CANNOT_RUN)])
def test_a_label_of_the_job_injects_what_its_checks_find(wish: str, outcome: CheckOutcome) -> None:
    agent = VirtualAgent()
    begin(agent, wishing(wish))
    own = [one for one in found(agent) if one[2] is not CheckOutcome.PASS]
    assert [(check, found) for _, check, found in own] == [("command", outcome)], "its own word, not its node's"


def test_fail_once_is_about_the_first_attempt() -> None:
    agent = VirtualAgent()
    wanted = wishing("fail-once")
    begin(agent, wanted)
    agent.stop(wanted)
    agent.advance(10)
    begin(agent, wanted, attempt=2)
    assert [one[2].value for one in found(agent)].count("fail") == 1
    assert {one[2].value for one in found(agent)[-2:]} == {"pass"}


def test_checks_that_hang_are_never_reported() -> None:
    agent = VirtualAgent()
    wanted = wishing("hang")
    begin(agent, wanted)
    agent.advance(10_000)
    assert agent.told(wanted.id) == ["pods-started"]


def test_a_large_gang_is_told_in_parts_and_the_last_says_so() -> None:
    agent = VirtualAgent(fleet=fleet_of(nodes=250))
    wanted = Job(
        id=job_id(1),
        spec=JobSpec(name="large", team="blue", task_groups=(TaskGroup(replicas=250, gpus=1),), labels={RUN_S: "30"}),
        principal="ann",
        idempotency_key="1",
        body_hash="",
    )
    begin(agent, wanted, *(Slot(group=0, replica=n, node=f"gpu-{n + 1:04d}", devices=(0,)) for n in range(250)))
    parts = [fact.payload for fact in agent.facts("checks-reported")]
    assert [(len(one.results), one.is_last) for one in parts if isinstance(one, ChecksReported)] == [
        (200, False), (200, False), (100, True),
    ]  # fmt: skip


def test_checkpoints_begin_with_the_first_step_and_count_from_there() -> None:
    agent = VirtualAgent()
    wanted = job(1, run_s=1000.0, checkpointing=Checkpointing(interval_s=60.0))
    begin(agent, wanted)
    agent.advance(500)
    assert agent.facts("checkpointed") == []
    opened = allow(agent, wanted)
    agent.advance(70)
    (saved,) = agent.facts("checkpointed")
    assert 50 <= (saved.time - opened.time) / 1e9 <= 70


@pytest.mark.parametrize("seconds", [0.3, 1.0, 5.0, 20.0])
def test_a_crash_at_any_moment_changes_nothing(seconds: float) -> None:
    """What is told, and when, is the same, however late the agent died."""

    def history(*, crashes: bool) -> list[tuple[str, int]]:
        agent = VirtualAgent(behaviour=BAD)
        wanted = job(1, run_s=30.0)
        agent.settle()
        agent.route(wanted)
        placed = JobPlaced(attempt=1, slots=(slot(2),), preflight=PLAN)
        agent.write("scheduler", "job", wanted.id, "placed", placed)
        for _ in range(3):
            agent.advance(seconds)
            if crashes:
                agent.crash()
        agent.advance(100)
        allow(agent, wanted)
        agent.advance(100)
        return [(fact.name, fact.time) for fact in agent.log]

    assert history(crashes=True) == history(crashes=False)


@pytest.mark.parametrize("opened", [False, True])
def test_a_checkpoint_of_the_log_keeps_how_far_the_checks_are(opened: bool) -> None:
    agent = VirtualAgent()
    wanted = job(1, run_s=30.0)
    begin(agent, wanted)
    if opened:
        allow(agent, wanted)
    states = list(agent.core.snapshot())
    agent.recover_from_checkpoint((*states, scheduler_state(wanted)))
    agent.advance(1)
    assert agent.told(wanted.id).count("checks-reported") == 1
    assert agent.told(wanted.id).count("pods-started") == 1
    if not opened:
        agent.advance(500)
        assert agent.facts("pods-exited") == []
        allow(agent, wanted)
    agent.advance(40)
    assert len(agent.facts("pods-exited")) == 1


def scheduler_state(wanted: Job) -> Draft:
    return Draft("job", wanted.id, "state-recorded", JobState(job=wanted, phase=Phase.PLACED, slots=(slot(),)))


def test_a_verdict_that_passed_the_exit_opens_nothing() -> None:
    agent = VirtualAgent()
    wanted = job(1)
    begin(agent, wanted)
    agent.stop(wanted)
    agent.advance(5)
    allow(agent, wanted)
    agent.advance(5)
    assert agent.told(wanted.id) == ["pods-started", "checks-reported", "pods-exited"]
    assert agent.core.anomalies == 0


def test_a_report_of_another_attempt_is_an_anomaly() -> None:
    agent = VirtualAgent()
    wanted = job(1)
    begin(agent, wanted)
    agent.write("agent", "job", wanted.id, "checks-reported", ChecksReported(attempt=7))
    assert agent.core.anomalies == 1


def test_a_start_told_by_another_leader_begins_the_checks() -> None:
    agent = VirtualAgent()
    wanted = job(1)
    agent.settle()
    agent.route(wanted)
    agent.write("scheduler", "job", wanted.id, "placed", JobPlaced(attempt=1, slots=(slot(),), preflight=PLAN))
    agent.write("agent", "job", wanted.id, "pods-started", PodsStarted(attempt=1))
    agent.advance(10)
    assert agent.told(wanted.id) == ["pods-started", "checks-reported"]
