"""Which job is checked by what: a function of what it asks for and of the policy."""

import pytest

from muster.checks import catalogue
from muster.checks.catalogue import CheckError
from muster.checks.plan import plan_of
from muster.checks.suites import PreflightPolicy, policy_of, suite_of
from muster.core.settings import CheckSettings, PreflightSettings, SuiteSettings
from muster.schemas.facts.operations import CheckScope
from muster.schemas.job import JobSpec, TaskGroup

STANDARD = PreflightPolicy(default="standard")


def job(*, gpus: int = 8, replicas: int = 2, preflight: str | None = None, gpu_milli: int = 0) -> JobSpec:
    group = TaskGroup(replicas=replicas, gpus=gpus, gpu_milli=gpu_milli)
    return JobSpec(name="train", team="vision", task_groups=(group,), preflight=preflight)


def names(spec: JobSpec, policy: PreflightPolicy) -> list[str]:
    plan = plan_of(spec, policy)
    return [] if plan is None else [one.check for one in plan.checks]


def test_without_a_default_only_jobs_that_name_a_suite_are_checked() -> None:
    assert plan_of(job(), PreflightPolicy()) is None
    assert names(job(preflight="quick"), PreflightPolicy()) == ["device-count", "gpu-health"]


def test_a_job_may_refuse_the_default() -> None:
    assert names(job(), STANDARD) == ["device-count", "gpu-health", "dcgm", "peer-bandwidth", "all-reduce"]
    assert plan_of(job(preflight="none"), STANDARD) is None


def test_small_jobs_get_the_default_only_from_gpus_least_on() -> None:
    policy = PreflightPolicy(default="quick", gpus_least=8)
    assert plan_of(job(gpus=4, replicas=1), policy) is None
    assert plan_of(job(gpus=4, replicas=2), policy) is not None
    assert names(job(gpus=1, replicas=1, preflight="quick"), policy) == ["device-count", "gpu-health"]


def test_checks_that_could_say_nothing_of_the_job_are_left_out() -> None:
    assert "peer-bandwidth" not in names(job(gpus=1, replicas=2), STANDARD)
    assert "all-reduce" in names(job(gpus=1, replicas=2), STANDARD)
    assert "all-reduce" not in names(job(gpus=1, replicas=1), STANDARD)


def test_a_job_without_whole_gpus_is_not_checked_for_them() -> None:
    assert plan_of(job(gpus=0, gpu_milli=500, preflight="standard"), STANDARD) is None


def test_a_suite_that_is_no_more_is_replaced_by_the_quick_one() -> None:
    plan = plan_of(job(preflight="gone"), STANDARD)
    assert plan is not None
    assert plan.suite == "quick"


def test_the_settings_add_suites_and_replace_those_that_come_with_muster() -> None:
    ours = CheckSettings(check="dcgm", limit_s=900, parameters={"level": "2"})
    policy = policy_of(PreflightSettings(default="quick", suites=(SuiteSettings(name="quick", checks=(ours,)),)))
    plan = plan_of(job(), policy)
    assert plan is not None
    assert [(one.check, one.limit_s, one.parameters) for one in plan.checks] == [("dcgm", 900, {"level": "2"})]


def test_an_order_carries_the_scope_and_every_parameter_of_the_library() -> None:
    order = catalogue.order("all-reduce", parameters={"gb_per_s_min": "400"})
    assert order.scope is CheckScope.GANG
    assert order.parameters == {"gb_per_s_min": "400", "mib": "256", "rounds": "20", "program": "all_reduce_perf"}


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (CheckSettings(check="magic"), "there is no check 'magic'"),
        (CheckSettings(check="dcgm", parameters={"depth": "3"}), "there is no parameter 'depth'"),
        (CheckSettings(check="dcgm", parameters={"level": "high"}), "'high' is not a number"),
        (CheckSettings(check="dcgm", parameters={"level": "nan"}), "'nan' is not a number"),
        (CheckSettings(check="command"), "allowed only there"),
        (CheckSettings(check="dcgm", command=("true",)), "`command` is required for check 'command'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_there_is(check: CheckSettings, words: str) -> None:
    settings = PreflightSettings(suites=(SuiteSettings(name="ours", checks=(check,)),))
    with pytest.raises(CheckError, match=words):
        policy_of(settings)


def test_a_default_and_a_name_that_do_not_exist_are_refused() -> None:
    with pytest.raises(CheckError, match="there is no suite 'gone'"):
        policy_of(PreflightSettings(default="gone"))
    with pytest.raises(CheckError, match="there is no suite 'gone'"):
        suite_of(PreflightPolicy(), "gone")
