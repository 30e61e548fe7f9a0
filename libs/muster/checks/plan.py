"""Choose the checks before a job's first step, from its specification and the policy only.

The scheduler writes the result into `placed`, so that every service uses the same plan, also after a change of the
settings.
"""

from muster.checks import catalogue
from muster.checks.suites import NONE, QUICK, PreflightPolicy, Suite
from muster.schemas.facts.operations import CheckOrder, CheckScope, PreflightPlan
from muster.schemas.job import JobSpec


def plan_of(spec: JobSpec, policy: PreflightPolicy) -> PreflightPlan | None:
    """Return the checks before the job's first step; None for none.

    Checks without a meaningful result for this job are left out: of peers if a pod has one GPU, of GPUs if it has
    none or a fraction. A suite that no longer exists is replaced by the quick one: a job that requested checks
    never runs unchecked.
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
    """Return the number of whole GPUs of the gang."""
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
    """Return the checks of the plan that a pod with this number of whole GPUs runs; others need more GPUs."""
    return tuple(
        one for one in plan.checks if (kind := catalogue.KINDS.get(one.check)) is None or gpus >= kind.gpus_least
    )
