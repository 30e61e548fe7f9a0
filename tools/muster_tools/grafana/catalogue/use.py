"""What jobs make of the GPUs that they hold: busy against truly active, idle ones, power and energy."""

from muster_tools.grafana.boards import RATE, Board, Panel, quantiles

_TEAM = '{team=~"$team"}'
_HELD = f"muster_gpu_job_held{_TEAM}"
_LARGE = f"muster_job_gpus{_TEAM}"
_JOULES_PER_KWH = 3_600_000


def _mean(metric: str, by: str = "") -> str:
    """Of the held GPUs: groups of team, queue and model count by how many they hold."""
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
        "Busy, and truly active",
        "Means of held GPUs. Far apart: programs are on the GPU and wait, for data or for each other.",
        [(_mean(_BUSY), "busy"), (_mean(_SM), "SM active"), (_mean(_TENSOR), "tensor cores")],
        unit="percentunit",
        kind="stat",
    ),
    Panel(
        "Held and idle",
        "GPUs that did nothing for telemetry.idle_after_s. `muster top --idle` names them.",
        [(f"sum(muster_gpu_job_idle{_TEAM})", "idle")],
        kind="stat",
    ),
    Panel(
        "Energy of a day",
        "What held GPUs drew in the last 24 hours, in kWh.",
        [(f"sum(increase(muster_gpu_job_energy_joules_total{_TEAM}[1d])) / {_JOULES_PER_KWH}", "kWh")],
        kind="stat",
    ),
)

_TEAMS = (
    Panel(
        "Busy by team",
        "That something ran on the GPU: liveness. 100 % also in a collective that hangs.",
        [(_mean(_BUSY, "team"), "{{team}}")],
        unit="percentunit",
    ),
    Panel(
        "SM active by team",
        "How much of the GPU worked: density of computing.",
        [(_mean(_SM, "team"), "{{team}}")],
        unit="percentunit",
    ),
    Panel(
        "Tensor cores by team",
        "Activity of tensor cores. Low beside active SMs: not in the precision that they are made for.",
        [(_mean(_TENSOR, "team"), "{{team}}")],
        unit="percentunit",
    ),
)

_IDLE = (
    Panel(
        "Idle GPUs by team",
        "Held and doing nothing: what could be asked back.",
        [(f"sum by (team) (muster_gpu_job_idle{_TEAM})", "{{team}}")],
        stacked=True,
    ),
    Panel(
        "Idle, of the GPU-hours of a day",
        "By team. Above a third: talk with them.",
        [
            (_IDLE_SHARE, "{{team}}"),
        ],
        unit="percentunit",
    ),
    Panel(
        "Held by queue",
        "GPUs, and of these idle ones.",
        [
            (f"sum by (queue) ({_HELD})", "{{queue}}"),
            (f"sum by (queue) (muster_gpu_job_idle{_TEAM})", "{{queue}} idle"),
        ],
    ),
)

_POWER = (
    Panel(
        "Power by team",
        "What held GPUs draw.",
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
        "Mean of the held ones.",
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
        "Those with most of them. All others: `muster top`, `muster stats JOB`.",
        [(f"max by (job_id, team) ({_LARGE})", "{{team}} {{job_id}}")],
    ),
    Panel(
        "Largest jobs: busy",
        "That something ran.",
        [(f"max by (job_id, team) (muster_job_busy_ratio{_TEAM})", "{{team}} {{job_id}}")],
        unit="percentunit",
    ),
    Panel(
        "Largest jobs: SM active",
        "That it was work.",
        [(f"max by (job_id, team) (muster_job_sm_active_ratio{_TEAM})", "{{team}} {{job_id}}")],
        unit="percentunit",
    ),
)

_READING = (
    Panel(
        "Reading exporters",
        "Pages each second, by how that went.",
        [(f"sum by (state) (rate(muster_telemetry_scrapes_total{RATE}))", "{{state}}")],
        unit="ops",
        stacked=True,
    ),
    Panel(
        "Time for a page",
        "From the question to the end of reading it.",
        quantiles("muster_telemetry_scrape_seconds"),
        unit="s",
    ),
    Panel(
        "Left out",
        "Turns whose page before had not come; readings that the broker did not take.",
        [
            (f"sum(rate(muster_telemetry_overdue_total{RATE}))", "overdue/s"),
            (f"sum(rate(muster_telemetry_dropped_total{RATE}))", "dropped/s"),
        ],
    ),
)

USE = Board(
    "use",
    "GPU use",
    "What teams and jobs make of the GPUs that they hold. Busy: something ran. SM active: it was work.",
    variables=(("team", "Team", "label_values(muster_gpu_job_held, team)"),),
    rows=(_NOW, _TEAMS, _IDLE, _POWER, _JOBS, _READING),
)
