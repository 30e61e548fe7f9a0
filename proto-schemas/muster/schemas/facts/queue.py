"""Facts of queues."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Name, Payload, Text, Wire


class QueueSpec(Wire):
    """A queue. gpu_milli_quota: nominal, what its teams can always have; gpu_milli_limit: never more than this.

    None means unlimited. parent and weight are kept for the hierarchy. closed: takes no new jobs.
    """

    name: Name
    parent: Name | None = None
    gpu_milli_quota: Annotated[int, Field(ge=0)] | None = None
    gpu_milli_limit: Annotated[int, Field(ge=0)] | None = None
    weight: Annotated[float, Field(gt=0)] = 1.0
    closed: bool = False


class QueueChangeRequested(Payload):
    """`change-requested`, `change-forwarded`: an operator wants the queue to be so."""

    spec: QueueSpec
    principal: str


class QueueChanged(Payload):
    """`changed`: the queue is so from here on. Evicts nobody by itself."""

    spec: QueueSpec


class QueueChangeRefused(Payload):
    """`change-refused`: the queue stays as it was."""

    field: str
    reason: Text


class QueueState(Payload):
    """`state-recorded` of a queue."""

    spec: QueueSpec
    changed_at: InstantNs = 0


class QueueWish(Wire):
    """A change that was asked for and not yet answered. fact: which fact asked; trace: its trace."""

    fact: str
    spec: QueueSpec
    principal: str = ""
    trace: str = ""


class QueueWishes(Payload):
    """`state-recorded` of a queue in the federation: changes that were not yet forwarded."""

    wishes: tuple[QueueWish, ...] = ()
