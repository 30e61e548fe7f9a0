"""Subjects that may cross the link between the center's broker and a cell's. Pure.

A cell's broker is a leaf node of the center's. It joins its own account there, not the account with the logs: a client
that may choose the reply subject of a request can have the answer stored in any stream that takes that subject, and
every client of an account can receive its answers. The subjects between the two accounts are enumerated here, and the
subjects between the cell and its account are the same list again (tested on nats-server 2.15, decisions 0037 and 0038):

- towards the cell: the center's requests for copies of the cell's log, checkpoints and output, deliveries of FED,
  queries to the cell's services;
- towards the center: the request for the messages of FED for this cell only, deliveries of the copies,
  telemetry and live output;
- both ways: answers, and flow control of deliveries.

Facts cross in sourced streams only: no client on one side can publish a subject that a log on the other side takes.
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
"""Services of a cell that the center may query. Queries to its own services do not cross the link."""
_CREATED = "$JSC.R.>"
"""Where a server has its own requests for consumers answered."""
_ANSWERS = "_R_.>"
"""Answers to what came in through an account's import."""
_FLOW_CONTROL = "$JS.FC.{stream}.>"
"""Flow control of the receiver of a stream; without it the deliveries stop after about 2 MB."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Subjects that pass between the center's account LOG and a cell's account there.

    asked, told: requests to LOG, and publications to LOG without an answer. asks, tells: requests of LOG to the cell,
    and publications of LOG to it.
    """

    asked: tuple[str, ...]
    told: tuple[str, ...]
    asks: tuple[str, ...]
    tells: tuple[str, ...]


def crossing(cluster: str) -> Crossing:
    """Return the subjects that cross the link of a cluster. The request for FED names its filter in the subject, and
    the broker refuses another filter in the body; so a cell reads only the messages of FED that are addressed to it. In
    the center's accounts it is a request to the broker's own API: across the link it names the center's domain, which
    the broker removes."""
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
    """Return the name of the credential that a cell's broker joins the center's with."""
    return f"cell-{cluster}"


def cell_user(cluster: str, *, kept: Iterable[str] = ()) -> BusUser:
    """Return the user of the center's broker that represents a cell's broker. It is kept across restarts of the center.

    kept: as in `cell_rights`.
    """
    return BusUser(cell_user_name(cluster), AccountName.CELL, cell_rights(cluster, kept=kept), cell=cluster)


def cell_rights(cluster: str, *, kept: Iterable[str] = ()) -> Rights:
    """Return the permissions of a cell. publish: what crosses from the cell to the center. subscribe: the reverse.

    kept: names of other clients' consumers on FED; a request under such a name would change them. Consumers without a
    fixed name have one that cannot be guessed.
    """
    passes = crossing(cluster)
    fed = f"{api_of(CENTRE_DOMAIN)}.CONSUMER.CREATE.{FED_LOG.stream}"
    asked = (subject.replace(f"{API}.", f"{api_of(CENTRE_DOMAIN)}.", 1) for subject in passes.asked)
    return Rights(
        publish=(*asked, *passes.told, _ANSWERS),
        subscribe=(*passes.asks, *passes.tells, _CREATED),
        withheld=tuple(f"{fed}.{name}.>" for name in kept),
    )
