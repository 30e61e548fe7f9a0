"""Wiring only: what the scheduler folds, which questions it answers, under which limits."""

from functools import partial

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.checks.plan import plan_of
from muster.checks.suites import policy_of
from muster.scheduler.core import SchedulerCore, answers
from muster.scheduler.core import answers as reservation_answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.declaration import DECLARATION
from muster.scheduler.metrics_sink import SchedulerSink
from muster.schemas.registry import StreamRole

BLAME_MARGIN_S = 2.0
"""Beyond a reading: until health has told of it and the scheduler has folded that."""
BLAME_DERIVED_S_MAX = 60.0
"""Where pages are read more seldom, a job's places are not held for the next one."""


def blame_s_of(settings: Settings) -> float:
    """How long an error of a job is judged later, seconds: as set, or one reading more; 0 where nobody looks."""
    if settings.scheduler.blame_s is not None:
        return settings.scheduler.blame_s
    if not (settings.telemetry.enabled and settings.health.enabled):
        return 0.0
    return min(settings.telemetry.interval_s + BLAME_MARGIN_S, BLAME_DERIVED_S_MAX)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The scheduler of one cluster."""
    sink = SchedulerSink()
    limits = Limits(
        unschedulable_interval_s=settings.scheduler.unschedulable_interval_s,
        checkpoint_every_facts=settings.scheduler.checkpoint_every_facts,
        may_grow=settings.scaling.mode != "off" and bool(settings.scaling.groups),
        heartbeat_s=settings.federation.heartbeat_s,
        blame_s=blame_s_of(settings),
        blame_unread=settings.scheduler.blame_s is not None,
        plan_of=partial(plan_of, policy=policy_of(settings.preflight)),
    )
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: SchedulerCore(cluster=settings.cluster, limits=limits),
            sink=lambda: sink,
            queries={
                "job": answers.answer_job,
                "why": answers.answer_why,
                "dry-run": answers.answer_dry_run,
                "queues": answers.answer_queues,
                "nodes": answers.answer_nodes,
                "cluster": answers.answer_cluster,
                "queue-check": answers.answer_queue_check,
                "reservations": reservation_answers.answer_reservations,
                "reservation-check": reservation_answers.answer_reservation_check,
            },
        ),
    )
