"""What may cross the link between the centre's broker and a cell's: the rights of the cell's leaf node. Pure.

A cell's broker is a leaf node of the centre's, joined by one credential of the centre's account LOG. Without rights
that say otherwise everything would cross that somebody listens to: a cell's dead letters and checkpoints would be
stored in the centre as well, and whoever may write facts on one side could write the other's. So what crosses is
enumerated (tried on nats-server 2.15, decision 0037):

- towards the cell: the centre's requests for copies of the cell's log, checkpoints and output, deliveries of FED,
  questions;
- towards the centre: the request for what FED has for this cell and for nothing else of it, deliveries of the copies,
  answers, telemetry and output as it comes;
- both ways: that deliveries are kept up with. They are on subjects of the cell's own, so no cell hears another's.

Facts cross in sourced streams alone: nobody on one side can publish a subject that a log on the other side takes.
"""

from collections.abc import Iterable

from muster.bus.access import AccountName, BusUser, Rights
from muster.bus.names import (
    CENTRE_DOMAIN,
    CHECKPOINTS_BUCKET,
    addressed_to,
    api_of,
    deliveries,
    output_stream,
    store_stream,
)
from muster.schemas.subjects import FED_LOG, cluster_log

_ANSWERED = "$JSC.R.>"
"""Answers to a server's own requests for consumers, on subjects that nobody can guess."""
_FLOW_CONTROL = "$JS.FC.{stream}.>"
"""Who is delivered a stream says here that it keeps up; without it the deliveries stop after some 2 MB."""
_QUESTION_ANSWERS = "_R_.>"
"""Answers to questions that came in through an account's import, as all that are asked of clusters do."""


def cell_user_name(cluster: str) -> str:
    """Name of the credential that a cell's broker joins the centre's with."""
    return f"cell-{cluster}"


def cell_user(cluster: str, *, kept: Iterable[str] = ()) -> BusUser:
    """The user of the centre's broker that stands for a cell's. It lasts: cells are not told of the centre's starts.

    kept: as `cell_rights`.
    """
    return BusUser(cell_user_name(cluster), AccountName.LOG, cell_rights(cluster, kept=kept), lasting=True)


def cell_rights(cluster: str, *, kept: Iterable[str] = ()) -> Rights:
    """publish: what crosses from the cell to the centre. subscribe: from the centre to the cell.

    The request for FED names what it asks for, and the broker refuses one that says otherwise in its body; so a cell
    reads what is addressed to it, and nothing else of FED. kept: names of consumers that others have on FED; a request
    under such a name would change theirs. Those without a name of their own have one that nobody can guess.
    """
    asked = f"{api_of(CENTRE_DOMAIN)}.CONSUMER.CREATE.{FED_LOG.stream}"
    own = api_of(cluster)
    copied = (cluster_log(cluster).stream, output_stream(cluster), store_stream(CHECKPOINTS_BUCKET))
    return Rights(
        publish=(
            f"{asked}.*.{addressed_to(cluster)}",
            _FLOW_CONTROL.format(stream=FED_LOG.stream),
            f"{deliveries(cluster)}.>",
            _ANSWERED,
            _QUESTION_ANSWERS,
            f"telemetry.{cluster}.>",
            f"logs.{cluster}.>",
        ),
        subscribe=(
            *(f"{own}.CONSUMER.CREATE.{stream}" for stream in copied),
            *(_FLOW_CONTROL.format(stream=stream) for stream in copied),
            f"{deliveries(cluster)}.>",
            _ANSWERED,
            f"query.{cluster}.>",
        ),
        withheld=tuple(f"{asked}.{name}.>" for name in kept),
    )
