"""Stack of `muster demo devices`: two workers with one GPU each, a pool, a group with much memory; short times.

The tests of composable devices start the same stack.
"""

FABRIC, MODEL = "demo", "A100"
WORKERS, WORKER_COUNT, WORKERS_MAX = "flex", 2, 3
BIG = "big"
POOL = 4
WORKER_CPU_MILLI, WORKER_MEMORY_MIB = 16_000, 65_536
BIG_MEMORY_MIB = 524_288


def demo_settings() -> dict[str, object]:
    """Return sections of `Settings` for `StartOptions`: an attachment takes about a second, idleness three."""
    workers = {
        "name": WORKERS,
        "composable": True,
        "fabric": FABRIC,
        "nodes": WORKER_COUNT,
        "nodes_min": 1,
        "nodes_max": WORKERS_MAX,
        "gpus": 1,
        "gpus_max": 4,
        "gpu_models": [MODEL],
        "cpu_milli": WORKER_CPU_MILLI,
        "memory_mib": WORKER_MEMORY_MIB,
        "provision_s": 2.0,
        "deprovision_s": 1.0,
    }
    big = {
        "name": BIG,
        "nodes_max": 1,
        "cpu_milli": 32_000,
        "memory_mib": BIG_MEMORY_MIB,
        "provision_s": 2.0,
        "deprovision_s": 1.0,
    }
    return {
        "fleet": {"nodes": 0},
        "simulation": {"start_s": 0.05, "job_failure_share": 0.0, "telemetry_interval_s": 0, "output_interval_s": 0},
        "scheduler": {"unschedulable_interval_s": 0.5},
        "bus": {"lease_ttl_s": 1.0},
        "scaling": {
            "groups": [workers, big],
            "models": {MODEL: {"attach_s": 1.0, "detach_s": 1.0}},
            "gpu_idle_s": 3.0,
            "node_unneeded_s": 2.0,
            "delay_after_add_s": 0.0,
            "delay_after_failure_s": 1.0,
            "withhold_s": 10.0,
            "visible_s": 0.3,
        },
        "fabrics": [
            {
                "name": FABRIC,
                "driver": "fm",
                "call_s": 5.0,
                "simulated": {"pool": {MODEL: POOL}, "switch_median_s": 0.7, "switch_sigma": 0.1},
            }
        ],
        "composer": {"survey_s": 1.0, "backoff_s": 0.2, "breaker_s": 2.0, "orphan_s": 2.0},
    }
