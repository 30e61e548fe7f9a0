"""The golden logs: what a small stack once wrote, committed, so that every later Muster is held to folding it alike.

`record.py` made them and makes them anew; `SETTINGS` is what that stack ran with, since the agent's fold draws its
simulated cluster from there, and scaler and composer their groups and fabrics. `GOLDEN_LOGS` names another folder with
recordings, to hold them to the tests before they are committed.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from muster.bus.archive_file import read_archive
from muster.bus.decode import Decoder
from muster.bus.settings import Settings
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas.subjects import FED_LOG, LogName, cluster_log

FOLDER = Path(os.environ.get("GOLDEN_LOGS") or Path(__file__).parent)
CLUSTER = "golden"
LOG = cluster_log(CLUSTER)
LOGS = (FED_LOG, LOG)
FABRIC, MODEL = "rack7", "A100"
WORKERS, BIG = "flex", "big"
WORKERS_MAX, WORKER_GPUS_MAX = 3, 2
BIG_MEMORY_MIB = 2_097_152  # twice that of any other node
SETTINGS: dict[str, object] = {
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
    "scaling": {
        "groups": [
            {
                "name": WORKERS,
                "composable": True,
                "fabric": FABRIC,
                "nodes": 2,
                "nodes_min": 2,
                "nodes_max": WORKERS_MAX,
                "gpus": 1,
                "gpus_max": WORKER_GPUS_MAX,
                "gpu_models": [MODEL],
                "cpu_milli": 16_000,
                "memory_mib": 65_536,
                "provision_s": 0.5,
                "deprovision_s": 0.3,
            },
            {"name": BIG, "nodes_max": 1, "memory_mib": BIG_MEMORY_MIB, "provision_s": 0.5, "deprovision_s": 0.3},
        ],
        "models": {MODEL: {"attach_s": 0.3, "detach_s": 0.3}},
        "gpu_idle_s": 2.0,
        "node_unneeded_s": 1.5,
        "delay_after_add_s": 0.0,
        "delay_after_failure_s": 0.5,
        "withhold_s": 5.0,
        "visible_s": 0.1,
    },
    "fabrics": [
        {
            "name": FABRIC,
            "driver": "fm",
            "call_s": 1.0,
            "simulated": {"pool": {MODEL: 4}, "switch_median_s": 0.2, "switch_sigma": 0.1},
        }
    ],
    "composer": {
        "attempts_max": 4,
        "backoff_s": 0.1,
        "backoff_s_max": 0.3,
        "breaker_failures": 3,
        "breaker_s": 0.5,
        "survey_s": 0.5,
        "orphan_s": 0.5,
    },
}

DEVICE_FACTS = frozenset(
    {
        "gpu-attach-chosen", "gpu-remove-chosen", "node-add-chosen", "node-remove-chosen", "nothing-chosen", "ended",
        "compose-forwarded", "decompose-forwarded", "detach-forwarded", "accepted", "refused", "moved",
        "requested", "attaching", "attach-failed", "attached", "visible", "online",
        "detach-wanted", "detaching", "detach-failed", "detach-given-up", "detached",
        "withhold-requested", "withheld", "withhold-withdrawn", "released", "left",
        "surveyed", "breaker-opened", "breaker-closed", "orphan-found", "orphan-returned",
    }
)  # fmt: skip
"""What the cluster's log must tell of devices."""


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
    for message in read_archive(archive_of(log), log):
        found = decoder.decode(
            message.subject, message.headers, message.content, seq=message.seq, time=Instant(message.time)
        )
        assert isinstance(found, Fact), found
        facts.append(found)
    return tuple(facts)
