"""Wiring only: what the scheduler folds, which questions it answers, under which limits."""

from functools import partial

from muster.bus.declaration import Declaration, QueryType
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.checks.plan import plan_of
from muster.checks.suites import policy_of
from muster.scheduler.core import SchedulerCore, answers, reservation_answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.metrics_sink import SchedulerSink
from muster.schemas import apiserver, queries
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="scheduler",
    folds=(StreamRole.LOG,),
    queries=(
        QueryType("job", queries.AskJob, queries.JobAnswer),
        QueryType("why", queries.AskJob, queries.WhyAnswer),
        QueryType("dry-run", queries.AskDryRun, queries.DryRunAnswer),
        QueryType("queues", queries.AskFleet, queries.QueuesAnswer),
        QueryType("nodes", queries.AskFleet, queries.NodesAnswer),
        QueryType("cluster", queries.AskFleet, apiserver.ClusterView),
        QueryType("queue-check", queries.AskQueueChange, queries.QueueCheckAnswer),
        QueryType("reservations", queries.AskFleet, queries.ReservationsAnswer),
        QueryType("reservation-check", queries.AskReservation, queries.QueueCheckAnswer),
    ),
)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The scheduler of one cluster."""
    told = SchedulerSink()
    limits = Limits(
        unschedulable_interval_s=settings.scheduler.unschedulable_interval_s,
        checkpoint_every_facts=settings.scheduler.checkpoint_every_facts,
        may_grow=settings.scaling.mode != "off" and bool(settings.scaling.groups),
        heartbeat_s=settings.federation.heartbeat_s,
        blame_s=settings.scheduler.blame_s,
        plan_of=partial(plan_of, policy=policy_of(settings.preflight)),
    )
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: SchedulerCore(cluster=settings.cluster, limits=limits),
            sink=lambda: told,
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
