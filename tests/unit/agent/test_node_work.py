"""Actions and checks on nodes: each request once, told once, whatever crashes."""

from kit.agent import QUICK, VirtualAgent
from muster.agent.core.node_work import ENDED_MAX
from muster.core.settings import SimulatedWorkSettings
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    ChecksReported,
    ChecksRequested,
    NodeAction,
    NodeActionEnded,
    NodeActionRequested,
)

NODE = "gpu-0001"
BAD = QUICK.model_copy(update={"work": SimulatedWorkSettings(bad_nodes={NODE: "gpu-health"})})


def act(
    agent: VirtualAgent,
    request_id: str = "a-1",
    *,
    action: NodeAction = NodeAction.REBOOT,
    version: str = "",
    limit_s: float = 600.0,
) -> None:
    body = NodeActionRequested(request_id=request_id, action=action, version=version, limit_s=limit_s)
    agent.write("upgrader", "node", NODE, "action-requested", body, trace="00-t-s-01")


def check(agent: VirtualAgent, request_id: str = "c-1") -> None:
    body = ChecksRequested(request_id=request_id, checks=(CheckOrder(check="gpu-health"),))
    agent.write("health", "node", NODE, "checks-requested", body)


def ends(agent: VirtualAgent) -> list[NodeActionEnded]:
    return [fact.payload for fact in agent.facts("action-ended") if isinstance(fact.payload, NodeActionEnded)]


def outcomes(agent: VirtualAgent) -> list[CheckOutcome]:
    reports = [fact.payload for fact in agent.facts("checks-reported") if isinstance(fact.payload, ChecksReported)]
    return [one.outcome for report in reports for one in report.results]


def test_an_action_is_carried_out_and_told_once_with_its_cause_and_trace() -> None:
    agent = VirtualAgent()
    act(agent)
    agent.advance(100)
    (asked,), (ended,) = agent.facts("action-requested"), agent.facts("action-ended")
    assert (ended.subject_id, ended.causes, ended.trace) == (NODE, (asked.id,), "00-t-s-01")
    assert [(one.request_id, one.outcome) for one in ends(agent)] == [("a-1", ActionOutcome.DONE)]
    assert ends(agent)[0].took_s > 0


def test_the_same_request_again_is_not_carried_out_again() -> None:
    agent = VirtualAgent()
    act(agent)
    act(agent)
    agent.advance(100)
    act(agent)
    agent.advance(100)
    assert len(ends(agent)) == 1
    assert agent.core.anomalies == 0


def test_nor_is_it_by_an_agent_that_begins_from_a_checkpoint() -> None:
    agent = VirtualAgent()
    act(agent)
    agent.advance(100)
    agent.recover_from_checkpoint(list(agent.core.snapshot()))
    act(agent)
    agent.advance(100)
    assert len(ends(agent)) == 1


def test_what_is_under_way_goes_on_after_a_crash_and_after_a_checkpoint() -> None:
    plain, crashed, recovered = (VirtualAgent() for _ in range(3))
    for agent in (plain, crashed, recovered):
        act(agent)
        agent.advance(5)
    crashed.crash()
    recovered.recover_from_checkpoint(list(recovered.core.snapshot()))
    for agent in (plain, crashed, recovered):
        agent.advance(100)
    moments = [[(fact.time, fact.causes, fact.trace) for fact in agent.facts("action-ended")]
               for agent in (plain, crashed, recovered)]  # fmt: skip
    assert moments[0] == moments[1] == moments[2]


def test_an_upgrade_changes_the_version_that_the_node_tells_also_from_a_checkpoint() -> None:
    agent = VirtualAgent()
    act(agent, action=NodeAction.DRIVER, version="580.105")
    agent.advance(100)
    told = [fact.payload for fact in agent.facts("joined") if fact.subject_id == NODE]
    assert isinstance(told[-1], NodeJoined)
    assert told[-1].versions == (("driver", "580.105"),)
    agent.recover_from_checkpoint(list(agent.core.snapshot()))
    agent.advance(10)
    assert len([fact for fact in agent.facts("joined") if fact.subject_id == NODE]) == len(told)


def test_an_action_that_takes_longer_than_its_limit_failed() -> None:
    agent = VirtualAgent()
    act(agent, limit_s=1.0)
    agent.advance(100)
    assert [(one.outcome, one.took_s) for one in ends(agent)] == [(ActionOutcome.FAILED, 1.0)]


def test_failures_can_be_injected() -> None:
    work = SimulatedWorkSettings(action_fail_share=1.0, check_fail_share=1.0)
    agent = VirtualAgent(behaviour=QUICK.model_copy(update={"work": work}))
    act(agent)
    check(agent)
    agent.advance(100)
    assert [one.outcome for one in ends(agent)] == [ActionOutcome.FAILED]
    assert outcomes(agent) == [CheckOutcome.FAIL]


def test_a_bad_node_is_well_after_a_repair_and_stays_so_after_a_checkpoint() -> None:
    agent = VirtualAgent(behaviour=BAD)
    check(agent, "c-1")
    agent.advance(20)
    act(agent, action=NodeAction.RESET)
    agent.advance(100)
    agent.recover_from_checkpoint(list(agent.core.snapshot()))
    check(agent, "c-2")
    agent.advance(20)
    assert outcomes(agent) == [CheckOutcome.FAIL, CheckOutcome.PASS]


def test_a_new_driver_repairs_no_hardware() -> None:
    agent = VirtualAgent(behaviour=BAD)
    act(agent, action=NodeAction.DRIVER, version="580.105")
    agent.advance(100)
    check(agent)
    agent.advance(20)
    assert outcomes(agent) == [CheckOutcome.FAIL]


def test_requests_that_ended_are_remembered_up_to_a_bound() -> None:
    agent = VirtualAgent()
    for number in range(ENDED_MAX + 10):
        check(agent, f"c-{number}")
        body = ChecksReported(request_id=f"c-{number}")
        agent.write("agent", "node", NODE, "checks-reported", body)
    assert len([one for one in agent.core.snapshot() if one.kind == "work"]) == ENDED_MAX


def test_an_end_that_nobody_asked_for_is_an_anomaly() -> None:
    agent = VirtualAgent()
    body = NodeActionEnded(request_id="never", outcome=ActionOutcome.DONE)
    agent.write("agent", "node", NODE, "action-ended", body)
    assert agent.core.anomalies == 1
