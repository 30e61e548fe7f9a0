"""The golden logs: what a small stack once wrote, committed, so that every later Muster is held to folding it alike.

`record.py` made them and makes them anew; `SETTINGS` is what that stack ran with, since the agent's fold draws its
simulated cluster from there.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from muster.bus.archive import read_archive
from muster.bus.decode import Decoder
from muster.bus.settings import Settings
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas.subjects import FED_LOG, LogName, cluster_log

FOLDER = Path(__file__).parent
CLUSTER = "golden"
LOG = cluster_log(CLUSTER)
LOGS = (FED_LOG, LOG)
SETTINGS: dict[str, dict[str, object]] = {
    "fleet": {"nodes": 6, "gpus_per_node": 4, "rack_size": 3},
    "simulation": {
        "start_s": 0.05,
        "run_s": 0.5,
        "job_failure_share": 0.0,
        "telemetry_interval_s": 0,
        "node_failures_per_day": 2_400.0,  # one of six fails about every six seconds
        "node_repair_s": 1.0,
    },
    "scheduler": {"unschedulable_interval_s": 0.5, "checkpoint_every_facts": 150},
}


def settings() -> Settings:
    """The recorded stack's, as far as folds depend on them."""
    return Settings.model_validate({"state_dir": FOLDER, "credentials_dir": FOLDER, "cluster": CLUSTER, **SETTINGS})


def archive_of(log: LogName) -> Path:
    """Where a log's archive stands."""
    return FOLDER / f"{log.stream}.jsonl.gz"


@cache
def facts_of(log: LogName) -> Sequence[Fact]:
    """Every fact of a golden log. A message that is none is a break of the wire contract, so it fails."""
    decoder = Decoder(log)
    facts: list[Fact] = []
    for message in read_archive(archive_of(log), log.stream):
        found = decoder.decode(
            message.subject, message.headers, message.content, seq=message.seq, time=Instant(message.time)
        )
        assert isinstance(found, Fact), found
        facts.append(found)
    return tuple(facts)
