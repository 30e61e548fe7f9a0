"""Which checks a job gets before its first step: a function of what it asks for and of the policy, and of nothing else.

The scheduler writes the answer into `placed`, so that everybody who takes part in it reads the same plan, also after
the settings changed.
"""

from muster.checks import catalogue
from muster.checks.suites import NONE, QUICK, PreflightPolicy, Suite
from muster.schemas.facts.operations import CheckOrder, CheckScope, PreflightPlan
from muster.schemas.job import JobSpec


def plan_of(spec: JobSpec, policy: PreflightPolicy) -> PreflightPlan | None:
    """What is checked before the job's first step; None: nothing.

    Checks that could say nothing of this job are left out: of peers where a pod has one GPU, of GPUs where it has none
    or a part of one. A suite that is no more (the job was accepted while it was) is replaced by the quick one: a job
    that wanted to be checked never runs unchecked.
    """
    suite = _suite_for(spec, policy)
    if suite is None:
        return None
    checks = tuple(one for one in suite.checks if _says_something(one, spec))
    if not checks:
        return None
    return PreflightPlan(
        suite=suite.name, checks=checks, limit_s=suite.limit_s, cannot_run_passes=suite.cannot_run_passes
    )


def whole_gpus(spec: JobSpec) -> int:
    """GPUs of the whole gang that it has for itself."""
    return sum(group.gpus * group.replicas for group in spec.task_groups)


def _suite_for(spec: JobSpec, policy: PreflightPolicy) -> Suite | None:
    if spec.preflight == NONE:
        return None
    if spec.preflight is not None:
        return policy.suites.get(spec.preflight, QUICK)
    if not policy.default or whole_gpus(spec) < policy.gpus_least:
        return None
    return policy.suites.get(policy.default, QUICK)


def _says_something(order: CheckOrder, spec: JobSpec) -> bool:
    kind = catalogue.KINDS.get(order.check)
    if kind is None:
        return True  # a newer version's: the agent says that it cannot run it
    gpus_of_a_pod = max(group.gpus for group in spec.task_groups)
    if gpus_of_a_pod < kind.gpus_least:
        return False
    return order.scope is not CheckScope.GANG or whole_gpus(spec) >= kind.gang_gpus_least


def orders_for(plan: PreflightPlan, *, gpus: int) -> tuple[CheckOrder, ...]:
    """What of the plan a pod with so many whole GPUs runs: the others have them, or it would check nothing."""
    return tuple(
        one for one in plan.checks if (kind := catalogue.KINDS.get(one.check)) is None or gpus >= kind.gpus_least
    )
