"""Declares what the scheduler reads and writes. Imports little, because a stack reads it before any service starts."""

from muster.bus.declaration import Declaration, QueryType
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
