"""Each advice: what raises it, what it says, and what it needs to see."""

from dataclasses import replace

from muster.guard.core.checks import (
    CHECKS,
    ENDED_PODS,
    GARBAGE,
    LISTS,
    MEMORY_SKEW,
    SECRETS,
    STREAMS,
    UNLIMITED,
    Finding,
    check_ended_pods,
    check_flow_limits,
    check_lists,
    check_secrets,
    check_skew,
    check_streams,
)
from muster.guard.core.config import GuardConfig
from muster.guard.core.look import Look, Pods, Replica
from muster.guard.core.pages import MIB
from unit.guard.pages_samples import DEFAULT_LEVELS, flow, lister, look, replica, workload

CONFIG = GuardConfig()
DOWN = Replica("10.0.0.9:6443", error="no answer")


def raised(code: str, seen: Look, config: GuardConfig = CONFIG) -> list[Finding]:
    return [one for one in CHECKS[code](seen, config) or () if one.degree >= 1]


def test_who_lists_more_than_the_threshold_is_named_by_its_user_agent() -> None:
    (found,) = raised(LISTS, look(replica(sizes={"secrets": 40 * MIB}), clients=(lister(31), lister(29, "ok/1"))))
    assert found.advice.about == "fleet-doctor/1.2 (system:serviceaccount:ops:doctor) secrets"
    assert "lists secrets 31 times a minute, about 40.0 MiB each (1240 MiB a minute)" in found.advice.detail


def test_clients_that_nobody_reports_cannot_be_judged() -> None:
    assert check_lists(look(clients_from=""), CONFIG) is None


def test_a_client_seen_at_work_only_is_said_to_list_at_least_so_much() -> None:
    (found,) = raised(LISTS, look(clients=(lister(60, agent=""),), clients_from="requests"))
    assert "the real number is higher" in found.advice.detail


def test_uneven_memory_advises_goaway_chance_and_says_whom_it_does_not_move() -> None:
    (found,) = raised(MEMORY_SKEW, look(replica("a", 2_000), replica("b", 600)))
    assert "a has 2000 MiB" in found.advice.detail
    assert "3.3 times as much" in found.advice.detail
    assert "--goaway-chance=0.001" in found.advice.cure
    assert "Python clients (HTTP/1.1)" in found.advice.cure


def test_a_goaway_chance_that_is_set_is_not_advised_again() -> None:
    (found,) = raised(MEMORY_SKEW, look(replica("a", 2_000), replica("b", 600), pods=Pods(goaway_chance=0.001)))
    assert found.advice.cure.startswith("--goaway-chance is 0.001")


def test_small_api_servers_are_not_called_uneven() -> None:
    assert raised(MEMORY_SKEW, look(replica("a", 450), replica("b", 210))) == []


def test_skew_cannot_be_judged_while_only_one_of_two_answers() -> None:
    assert check_skew(look(replica(), DOWN), CONFIG) is None
    assert check_skew(look(replica()), CONFIG) == []


def test_garbage_collection_is_advised_with_what_it_would_give() -> None:
    (found,) = raised(GARBAGE, look(replica(mib=2_000, heap_goal_bytes=1_600 * MIB)))
    assert "from 800 MiB live the heap grows to 1600 MiB" in found.advice.detail
    assert "with GOGC=50 to 1200 MiB" in found.advice.detail
    assert found.advice.severity == "info"


def test_replicas_with_different_settings_show_the_measured_effect() -> None:
    default = replica("a", 2_000, heap_goal_bytes=1_600 * MIB)
    advised = replica("b", 1_300, heap_goal_bytes=1_200 * MIB, gogc=50)
    (found,) = raised(GARBAGE, look(default, advised))
    assert "measured here, memory over live heap: 1.6 with GOGC=50, 2.5 with GOGC=100" in found.advice.detail


def test_no_garbage_collection_advice_with_a_memory_limit_or_for_a_small_server() -> None:
    limited = replica("a", 2_000, memory_limit_bytes=4_096 * MIB)
    assert raised(GARBAGE, look(limited, replica("b", 300))) == []


def test_a_workload_with_many_secrets_is_told_with_its_lists() -> None:
    (found,) = raised(SECRETS, look(pods=Pods(workloads=(workload(60), workload(49)))))
    assert found.advice.about == "ml/statefulset/trainer"
    assert "60 secrets" in found.advice.detail
    assert "300 LISTs" in found.advice.detail


def test_pods_that_may_not_be_read_cannot_be_judged() -> None:
    seen = look(pods=None)
    assert [judge(seen, CONFIG) for judge in (check_secrets, check_streams, check_ended_pods)] == [None] * 3


def test_a_kubelet_with_almost_as_many_watches_as_streams_is_told() -> None:
    few, many = Replica("a", page=replica().page, streams_max=100), Pods(busiest_node="gpu-7", watches_of_node=70)
    (found,) = raised(STREAMS, look(few, pods=many))
    assert "gpu-7" in found.advice.detail
    assert "allow 100 streams" in found.advice.detail
    assert "--http2-max-streams-per-connection=250" in found.advice.cure
    assert raised(STREAMS, look(few, pods=Pods(watches_of_node=20))) == []


def test_pods_that_ended_and_stay_are_told_with_the_threshold() -> None:
    (found,) = raised(ENDED_PODS, look(pods=Pods(pods=5_000, terminated=4_000)))
    assert "12500 by default" in found.advice.detail
    assert raised(ENDED_PODS, look(pods=Pods(pods=5_000, terminated=900))) == []
    assert raised(ENDED_PODS, look(pods=Pods(pods=50_000, terminated=4_000))) == []


def test_lists_that_nothing_holds_back_are_told_worse_where_they_are_encoded_whole() -> None:
    old = look(replica(version="v1.32.9"), flows=(flow(is_right=False, found=None),))
    new = look(flows=(flow(is_right=False, found=(3, 3)),))
    assert [one.advice.severity for one in (*raised(UNLIMITED, old), *raised(UNLIMITED, new))] == [
        "warning",
        "info",
    ]
    assert "has 3 seats" in raised(UNLIMITED, new)[0].advice.detail
    assert "muster guard apply" in raised(UNLIMITED, new)[0].advice.cure


def test_lists_that_cannot_be_held_back_are_told_with_the_reason() -> None:
    never = replace(flow(is_right=False, found=None, reason="more seats than there are"), total=0)
    (found,) = raised(UNLIMITED, look(flows=(never,)))
    assert found.advice.cure == "more seats than there are"


def test_the_guard_that_applies_flow_control_does_not_advise_it() -> None:
    assert raised(UNLIMITED, look(flows=(flow(is_right=False),)), GuardConfig(apply=True)) == []
    assert check_flow_limits(look(levels=None), CONFIG) is None


def test_findings_about_different_clients_are_different_subjects_of_a_bounded_alphabet() -> None:
    found = raised(LISTS, look(clients=(lister(90, "a/1 ☃ .>*"), lister(90, "b/1"))))
    assert len({one.subject for one in found}) == 2
    assert all(one.subject.replace("-", "").isalnum() and one.subject.isascii() for one in found)


def test_nothing_is_raised_of_a_cluster_that_is_well() -> None:
    seen = look(replica("a"), replica("b"), flows=(flow(is_right=True),))
    assert [code for code in CHECKS if raised(code, seen)] == []
    assert len(DEFAULT_LEVELS) == 8
