"""The Service by which the pods of a gang find each other."""

from dataclasses import dataclass

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes import words
from muster.agent.core.kubernetes.calls import Create, Delete, Kind, Outcome, Refused
from muster.agent.core.kubernetes.claim_steps import Counts
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Instant
from muster.schemas.job import Slot

_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class ChangeService(Purpose):
    """Make an attempt's Service, or delete it."""

    job_id: str
    attempt: int
    is_wanted: bool


@dataclass(slots=True, eq=False)
class GangServices:
    """counts: of what is refused; a gang whose pods need no names runs without."""

    worklist: Worklist
    orders: PodOrders
    counts: Counts

    def __post_init__(self) -> None:
        self.worklist.serve(self, ChangeService)

    def serve(self, order: CreatePods, slot: Slot, pod: tuple[str, str]) -> None:
        """Made once the first pod exists, which owns it; of a gang that may lose that pod and go on, nobody does.

        pod: name and uid of the pod of this slot.
        """
        service = self.orders.service(order, owner=pod) if self.orders.is_first(order, slot) else None
        if service is not None:
            name = words.attempt_name(order.job_id, order.attempt)
            call = Create(Kind.SERVICES, self.orders.namespace(order), name, service)
            self.worklist.ask(ChangeService(order.job_id, order.attempt, is_wanted=True), call)

    def end(self, order: CreatePods) -> None:
        """No pod of the gang is left."""
        if self.orders.service(order) is None:
            return
        self.worklist.cancel(ChangeService(order.job_id, order.attempt, is_wanted=True))
        name = words.attempt_name(order.job_id, order.attempt)
        call = Delete(Kind.SERVICES, self.orders.namespace(order), name)
        self.worklist.ask(ChangeService(order.job_id, order.attempt, is_wanted=False), call)

    def answered(self, purpose: ChangeService, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Asker`."""
        if isinstance(outcome, Refused) and outcome.code != (_CONFLICT if purpose.is_wanted else _NOT_FOUND):
            self.counts.unserved += purpose.is_wanted
            self.counts.last = outcome.message
