"""Where facts travel: what a subject says in one log, and that it says nothing in another."""

import pytest

from muster.schemas.subjects import FED_LOG, FED_UP_LOG, LogName, cluster_log, parse_subject

EAST = cluster_log("east")


def test_a_fact_of_a_log_is_taken_apart() -> None:
    parsed = parse_subject(EAST, "muster.east.scheduler.job.J.placed")
    assert parsed is not None
    assert (parsed.cluster, parsed.writer, parsed.subject_id, parsed.name) == ("east", "scheduler", "J", "placed")


@pytest.mark.parametrize(
    ("log", "subject"),
    [
        (EAST, "muster.west.scheduler.job.J.placed"),
        (EAST, "muster.west.scheduler.fence"),
        (EAST, "other.east.scheduler.job.J.placed"),
        (EAST, "muster.fed.federation.east.job.J.routed"),
        (FED_LOG, "muster.east.federation._.job.J.routed"),
        (FED_UP_LOG, "muster.east.scheduler.job.J.succeeded"),
        (EAST, "muster.east.agent.job.=FF.pods-started"),
        (FED_LOG, "muster.fed.gateway._.job.=C3.submitted"),
        (FED_UP_LOG, "fedup.east.scheduler.job.=FF.succeeded"),
    ],
)
def test_what_a_broker_stored_under_anothers_subject_is_no_fact_there(log: LogName, subject: str) -> None:
    """A copy of a cluster's log holds whatever that cluster's broker stored."""
    assert parse_subject(log, subject) is None
