"""The report: what was seen, and what was said."""

from dataclasses import replace

from muster.guard.core import GuardCore
from muster.guard.core.config import GuardConfig
from muster.guard.core.core import State
from muster.guard.core.flow import Level
from muster.guard.core.look import Look, Replica
from muster.guard.core.report import answer_report, report_of
from muster.schemas.apiserver import ApiServerReport, AskReport, FlowLevel
from muster.schemas.facts.guard import AdviceRaised, AdviceState
from unit.guard.pages_samples import DEFAULT_LEVELS, DEFAULT_SEATS, NOW, flow, lister, look, replica


def told(seen: Look | None, state: State | None = None) -> ApiServerReport:
    return report_of(seen, state or State(), GuardConfig(), guarded=True)


def level(report: ApiServerReport, name: str) -> FlowLevel:
    (found,) = [one for one in report.levels if one.name == name]
    return found


def test_a_simulated_cluster_has_nobody_to_report_on() -> None:
    core = GuardCore(GuardConfig())
    assert answer_report(core, AskReport(), NOW) == ApiServerReport()


def test_before_the_first_look_the_log_alone_speaks() -> None:
    state = State()
    state.advice["memory-skew"] = AdviceState(raised=AdviceRaised(code="memory-skew", cure="do"), raised_at=7)
    report = told(None, state)
    assert (report.advices[0].cure, report.advices[0].since) == ("do", 7)
    assert report.lacking == ("the API servers were not observed yet",)


def test_replicas_are_told_with_their_memory_and_those_that_do_not_answer_with_the_reason() -> None:
    seen = replace(replica("a", 512), memory=((NOW, 512.0),), requests_per_s=3.0)
    report = told(look(seen, Replica("b", error="no answer"), replica("c", 256)))
    assert [(one.name, one.memory_mib, one.error) for one in report.replicas] == [
        ("a", 512, ""), ("b", 0, "no answer"), ("c", 256, ""),
    ]  # fmt: skip
    assert report.memory_skew == 2
    assert report.replicas[0].memory[0].memory_mib == 512


def test_a_guarded_level_shows_the_seats_of_the_replica_where_they_are_wrong() -> None:
    name = "muster-list-secrets"
    levels = (*DEFAULT_LEVELS, Level(name, 1, borrowing=0, managed=True))
    fine, odd = ({**DEFAULT_SEATS, name: seats} for seats in (2, 3))
    report = told(look(replica("a", seats=fine), replica("b", seats=odd), levels=levels, flows=(flow(is_right=False),)))
    assert (level(report, name).seats, level(report, name).wanted) == (3, 2)
    assert level(report, "exempt").is_exempt


def test_levels_that_were_deleted_and_are_still_shown_by_metrics_are_left_out() -> None:
    report = told(look(replica(seats={**DEFAULT_SEATS, "gone": 5})))
    assert "gone" not in {one.name for one in report.levels}


def test_clients_are_told_by_user_agent_or_by_user() -> None:
    report = told(look(clients=(lister(60), lister(50, agent=""))))
    assert [(one.client, one.known_by) for one in report.listers] == [
        ("fleet-doctor/1.2 (system:serviceaccount:ops:doctor)", "user-agent"),
        ("system:serviceaccount:ops:doctor", "user"),
    ]


def test_what_is_stored_is_told_by_size() -> None:
    seen = replica(objects={"pods": 9.0, "secrets": 3.0, "leases": 0.0}, sizes={"pods": 10.0, "secrets": 500.0})
    assert [(one.resource, one.objects, one.bytes) for one in told(look(seen)).kinds] == [
        ("secrets", 3, 500), ("pods", 9, 10),
    ]  # fmt: skip
