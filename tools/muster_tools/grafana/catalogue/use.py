"""Use of the GPUs that jobs hold: utilization, SM activity, idle GPUs, power and energy."""

from muster_tools.grafana.boards import RATE, Board, Panel, quantiles

_TEAM = '{team=~"$team"}'
_HELD = f"muster_gpu_job_held{_TEAM}"
_LARGE = f"muster_job_gpus{_TEAM}"
_JOULES_PER_KWH = 3_600_000


def _mean(metric: str, by: str = "") -> str:
    """Return the mean over the held GPUs: groups of team, queue and model count by their number of held GPUs."""
    total = f"sum by ({by})" if by else "sum"
    return f"{total} ({metric}{_TEAM} * {_HELD}) / {total} ({_HELD})"


_BUSY, _SM, _TENSOR = (f"muster_gpu_job_{name}_ratio" for name in ("busy", "sm_active", "tensor_active"))

_IDLE_SHARE = (
    f"sum by (team) (increase(muster_gpu_job_idle_seconds_total{_TEAM}[1d]))"
    f" / (sum by (team) (increase(muster_gpu_job_held_seconds_total{_TEAM}[1d])) > 0)"
)

_NOW = (
    Panel("GPUs held", "By jobs, as far as they are read.", [(f"sum({_HELD})", "held")], kind="stat"),
    Panel(
        "Utilization and activity",
        "Means of the held GPUs. A large difference: programs occupy GPUs but wait for data or for each other.",
        [(_mean(_BUSY), "busy"), (_mean(_SM), "SM active"), (_mean(_TENSOR), "tensor cores")],
        unit="percentunit",
        kind="stat",
    ),
    Panel(
        "Held and idle",
        "GPUs that were idle for telemetry.idle_after_s. `muster top --idle` lists them.",
        [(f"sum(muster_gpu_job_idle{_TEAM})", "idle")],
        kind="stat",
    ),
    Panel(
        "Energy of a day",
        "Energy of the held GPUs in the last 24 hours, in kWh.",
        [(f"sum(increase(muster_gpu_job_energy_joules_total{_TEAM}[1d])) / {_JOULES_PER_KWH}", "kWh")],
        kind="stat",
    ),
)

_TEAMS = (
    Panel(
        "Busy by team",
        "Share of time in which a kernel ran. A hanging collective also shows 100 %.",
        [(_mean(_BUSY, "team"), "{{team}}")],
        unit="percentunit",
    ),
    Panel(
        "SM active by team",
        "Share of the GPU that was active.",
        [(_mean(_SM, "team"), "{{team}}")],
        unit="percentunit",
    ),
    Panel(
        "Tensor cores by team",
        "Activity of tensor cores. If it is low while SMs are active, the precision does not use tensor cores.",
        [(_mean(_TENSOR, "team"), "{{team}}")],
        unit="percentunit",
    ),
)

_IDLE = (
    Panel(
        "Idle GPUs by team",
        "Held GPUs that are idle.",
        [(f"sum by (team) (muster_gpu_job_idle{_TEAM})", "{{team}}")],
        stacked=True,
    ),
    Panel(
        "Idle share of the GPU-hours of a day",
        "By team. Above one third: talk to the team.",
        [
            (_IDLE_SHARE, "{{team}}"),
        ],
        unit="percentunit",
    ),
    Panel(
        "Held by queue",
        "Held GPUs, and the idle ones of these.",
        [
            (f"sum by (queue) ({_HELD})", "{{queue}}"),
            (f"sum by (queue) (muster_gpu_job_idle{_TEAM})", "{{queue}} idle"),
        ],
    ),
)

_POWER = (
    Panel(
        "Power by team",
        "Power of the held GPUs.",
        [(f"sum by (team) (muster_gpu_job_power_watts{_TEAM})", "{{team}}")],
        unit="watt",
        stacked=True,
    ),
    Panel(
        "Energy of a day by team",
        "In kWh.",
        [
            (
                f"sum by (team) (increase(muster_gpu_job_energy_joules_total{_TEAM}[1d])) / {_JOULES_PER_KWH}",
                "{{team}}",
            )
        ],
        stacked=True,
    ),
    Panel(
        "Power of a GPU by model",
        "Mean of the held GPUs.",
        [
            (
                f"sum by (model) (muster_gpu_job_power_watts{_TEAM}) / sum by (model) ({_HELD})",
                "{{model}}",
            )
        ],
        unit="watt",
    ),
)

_JOBS = (
    Panel(
        "Largest jobs: GPUs",
        "Jobs with the most GPUs. For other jobs see `muster top` and `muster stats JOB`.",
        [(f"max by (job_id, team) ({_LARGE})", "{{team}} {{job_id}}")],
    ),
    Panel(
        "Largest jobs: busy",
        "Share of time in which a kernel ran.",
        [(f"max by (job_id, team) (muster_job_busy_ratio{_TEAM})", "{{team}} {{job_id}}")],
        unit="percentunit",
    ),
    Panel(
        "Largest jobs: SM active",
        "SM activity of these jobs.",
        [(f"max by (job_id, team) (muster_job_sm_active_ratio{_TEAM})", "{{team}} {{job_id}}")],
        unit="percentunit",
    ),
)

_READING = (
    Panel(
        "Reading exporters",
        "Exporter pages a second, by outcome.",
        [(f"sum by (state) (rate(muster_telemetry_scrapes_total{RATE}))", "{{state}}")],
        unit="ops",
        stacked=True,
    ),
    Panel(
        "Read time of a page",
        "From the request to the end of the page.",
        quantiles("muster_telemetry_scrape_seconds"),
        unit="s",
    ),
    Panel(
        "Skipped reads",
        "Reads skipped because the previous one had not ended, and readings that the broker did not accept.",
        [
            (f"sum(rate(muster_telemetry_overdue_total{RATE}))", "overdue/s"),
            (f"sum(rate(muster_telemetry_dropped_total{RATE}))", "dropped/s"),
        ],
    ),
)

USE = Board(
    "use",
    "GPU use",
    "How teams and jobs use the GPUs that they hold. Busy: a kernel ran. SM active: share of SMs that worked.",
    variables=(("team", "Team", "label_values(muster_gpu_job_held, team)"),),
    rows=(_NOW, _TEAMS, _IDLE, _POWER, _JOBS, _READING),
)
