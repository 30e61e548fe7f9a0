"""What may cross the link between the centre's broker and a cell's. Pure.

A cell's broker is a leaf node of the centre's. It joins an account of its own there, not the one with the logs: who
may choose the reply subject of a request has the answer stored wherever a stream takes that subject, and who shares an
account hears every answer that is given in it. What passes between the two accounts is enumerated here, and what
passes between the cell and its account is the same once more (tried on nats-server 2.15, decisions 0037 and 0038):

- towards the cell: the centre's requests for copies of the cell's log, checkpoints and output, deliveries of FED,
  questions to the cell's services;
- towards the centre: the request for what FED has for this cell and for nothing else of it, deliveries of the copies,
  telemetry and output as it comes;
- both ways: answers, and that deliveries are kept up with.

Facts cross in sourced streams alone: nobody on one side can publish a subject that a log on the other side takes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.bus.access import AccountName, BusUser, Rights
from muster.bus.names import (
    API,
    CENTRE_DOMAIN,
    CHECKPOINTS_BUCKET,
    addressed_to,
    api_of,
    copied,
    deliveries,
    output_stream,
    store_stream,
)
from muster.schemas.subjects import FED_LOG, cluster_log

ASKED = ("scheduler", "agent", "scaler", "composer", "telemetry", "guard", "health", "upgrader")
"""Services of a cell that the centre may ask. Its own are asked in the name of its first cluster, and no cell hears."""
_CREATED = "$JSC.R.>"
"""Where a server has its own requests for consumers answered."""
_ANSWERS = "_R_.>"
"""Answers to what came in through an account's import."""
_FLOW_CONTROL = "$JS.FC.{stream}.>"
"""Who is delivered a stream says here that it keeps up; without it the deliveries stop after some 2 MB."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Subjects that pass between the centre's account LOG and a cell's account there.

    asked, told: requests to LOG, and what LOG hears without answering. asks, tells: what LOG asks the cell, and what it
    lets it hear.
    """

    asked: tuple[str, ...]
    told: tuple[str, ...]
    asks: tuple[str, ...]
    tells: tuple[str, ...]


def crossing(cluster: str) -> Crossing:
    """The request for FED names what it asks for, and the broker refuses one that says otherwise in its body; so a cell
    reads what is addressed to it, and nothing else of FED. In the centre's accounts it is a request to the broker's own
    API: across the link it names the centre's domain, which the broker takes off.
    """
    own = api_of(cluster)
    streams = (cluster_log(cluster).stream, output_stream(cluster), store_stream(CHECKPOINTS_BUCKET))
    return Crossing(
        asked=(
            f"{API}.CONSUMER.CREATE.{FED_LOG.stream}.*.{addressed_to(cluster)}",
            _FLOW_CONTROL.format(stream=FED_LOG.stream),
        ),
        told=(f"{copied(cluster)}.>", f"telemetry.{cluster}.>", f"logs.{cluster}.>"),
        asks=(
            *(f"{own}.CONSUMER.CREATE.{stream}" for stream in streams),
            *(f"query.{cluster}.{service}.>" for service in ASKED),
        ),
        tells=(f"{deliveries(cluster)}.>", *(_FLOW_CONTROL.format(stream=stream) for stream in streams)),
    )


def cell_user_name(cluster: str) -> str:
    """Name of the credential that a cell's broker joins the centre's with."""
    return f"cell-{cluster}"


def cell_user(cluster: str, *, kept: Iterable[str] = ()) -> BusUser:
    """The user of the centre's broker that stands for a cell's. It lasts: cells are not told of the centre's starts.

    kept: as `cell_rights`.
    """
    return BusUser(cell_user_name(cluster), AccountName.CELL, cell_rights(cluster, kept=kept), cell=cluster)


def cell_rights(cluster: str, *, kept: Iterable[str] = ()) -> Rights:
    """publish: what crosses from the cell to the centre. subscribe: from the centre to the cell.

    kept: names of consumers that others have on FED; a request under such a name would change theirs. Those without a
    name of their own have one that nobody can guess.
    """
    passes = crossing(cluster)
    fed = f"{api_of(CENTRE_DOMAIN)}.CONSUMER.CREATE.{FED_LOG.stream}"
    asked = (subject.replace(f"{API}.", f"{api_of(CENTRE_DOMAIN)}.", 1) for subject in passes.asked)
    return Rights(
        publish=(*asked, *passes.told, _ANSWERS),
        subscribe=(*passes.asks, *passes.tells, _CREATED),
        withheld=tuple(f"{fed}.{name}.>" for name in kept),
    )
