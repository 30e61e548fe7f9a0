"""`muster log`: what it refuses before it writes anything."""

import pytest

from muster.bus.jsapi import StreamInfo, StreamState
from muster.cli.errors import CliError, ExitCode
from muster.cli.log_files import refuse_absent
from muster.schemas.subjects import cluster_log

LOG = cluster_log("east")
HELD = StreamInfo(config={}, state=StreamState(messages=91, bytes=1, first_seq=10, last_seq=100))


@pytest.mark.parametrize(("seq", "info"), [(101, HELD), (9, HELD), (1, None)], ids=["to come", "trimmed", "no log"])
def test_only_a_fact_of_the_log_is_skipped(seq: int, info: StreamInfo | None) -> None:
    with pytest.raises(CliError, match=f"SEQ: {seq} is not in LOG_east, which has") as refused:
        refuse_absent(LOG, seq, info)
    assert refused.value.code is ExitCode.USAGE


@pytest.mark.parametrize("seq", [10, 100])
def test_a_fact_of_the_log_may_be_skipped(seq: int) -> None:
    refuse_absent(LOG, seq, HELD)
