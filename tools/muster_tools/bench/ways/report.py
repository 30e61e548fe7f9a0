"""Results of the comparison: numbers, their assumptions, and one chart."""

from collections.abc import Callable, Sequence

from pydantic import JsonValue

from muster.core.settings import GroupSettings, ModelSettings
from muster.simulator.load.svg import Series, bars, lines, poster, poster_style
from muster_tools.bench.ways.load import RUN_S_MAX, SPARSE_SHARE, TAIL_S, Amount, Work
from muster_tools.bench.ways.meter import Point
from muster_tools.bench.ways.run import (
    GPUS_PER_HOST,
    HOST_CPU_MILLI,
    HOST_MEMORY_MIB,
    IDLE_S,
    POOL_GPU_W,
    SWITCH_S,
    VISIBLE_S,
    Result,
    Way,
)

LABELS = {
    Way.SPLIT: "split GPUs, fixed nodes",
    Way.NODES: "whole GPUs, scale nodes",
    Way.DEVICES: "whole GPUs, scale devices",
}


def assumptions(work: Work, amount: Amount) -> dict[str, str]:
    """Return the assumptions by subject."""
    host, model = GroupSettings(name="host"), ModelSettings()
    return {
        "work": f"{work.tasks:,} tasks of the openb trace (its sparse first {SPARSE_SHARE:.0%} left out, none longer "
        f"than {RUN_S_MAX / 3600:.0f} h), {amount.copies:g} jobs each, {work.compress:.2f} times as fast as recorded, "
        f"seed {amount.seed}: with whole GPUs they ask {amount.load:.0%} of the fleet's GPU time while they come",
        "time": f"{work.window_s / 3600:.1f} h, until {TAIL_S / 3600:.0f} h after the last job came; what still "
        "runs then is not done, and is counted until then",
        "fleet": f"{amount.gpus} GPUs and {amount.gpus // GPUS_PER_HOST} hosts of {HOST_CPU_MILLI // 1000} cores, "
        f"{HOST_MEMORY_MIB // 1024} GiB and at most {GPUS_PER_HOST} GPUs, the same in each way",
        "split": "fractional asks share GPUs at no loss of speed; all hosts and GPUs are on all the time",
        "nodes": f"a fractional ask gets a whole GPU; a host comes with its {GPUS_PER_HOST} GPUs when the node "
        f"autoscaler wants it ({host.provision_s:g} s) and goes after {IDLE_S:g} s unneeded",
        "devices": "a fractional ask gets a whole GPU; hosts come without GPUs and go as in `nodes`; GPUs come from "
        f"the pool (switch {SWITCH_S:g} s median, visible {VISIBLE_S:g} s later) and go after {IDLE_S:g} s idle; the "
        "fabric costs no speed (published: under 10 % in most cases) and never fails here",
        "power": f"host {host.idle_w:g} to {host.busy_w:g} W by asked cores, GPU {model.idle_w:g} to {model.busy_w:g} "
        "W by asked share; a host is on from the decision to add it until it left; GPUs in the pool are switched off, "
        f"or in the second figure idle at {POOL_GPU_W:g} W; cooling, switches and the fabric are not counted",
        "note": "watts and times are assumptions of the model, none is measured on hardware",
    }


def to_json(result: Result) -> dict[str, JsonValue]:
    """Return one strategy as JSON, rounded."""
    return {
        "way": result.way.value,
        "label": LABELS[result.way],
        "jobs": result.jobs,
        "done": result.done,
        "unplaced": result.unplaced,
        "mean_wait_s": round(result.mean_wait_s, 1),
        "p50_wait_s": round(result.wait_s(0.5), 1),
        "p95_wait_s": round(result.wait_s(0.95), 1),
        "gpu_utilisation_on": round(result.gpu_share_on, 4),
        "gpu_utilisation_all": round(result.gpu_share_all, 4),
        "gpus_on_mean": round(result.gpus_on_mean, 2),
        "hosts_on_mean": round(result.hosts_on_mean, 2),
        "energy_kwh": round(result.kwh, 1),
        "energy_with_pool_kwh": round(result.kwh + result.pool_kwh, 1),
        "attachments": result.attached,
        "detachments": result.detached,
        "nodes_added": result.nodes_added,
        "nodes_removed": result.nodes_removed,
        "facts": result.facts,
    }


def chart(results: Sequence[Result]) -> str:
    """Return an SVG file with four panels."""

    def over_time(value: Callable[[Point], float]) -> list[Series]:
        return [
            Series(LABELS[one.way], [point.hours for point in one.points], [value(point) for point in one.points])
            for one in results
        ]

    waits = [Series(LABELS[one.way], [], [one.mean_wait_s / 60, one.wait_s(0.95) / 60]) for one in results]
    energy = [Series(LABELS[one.way], [], [one.kwh, one.kwh + one.pool_kwh]) for one in results]
    panels = (
        ("GPUs that are on", lines(over_time(lambda point: point.gpus), x_unit="hours", y_unit="GPUs")),
        ("Hosts that are on", lines(over_time(lambda point: point.hosts), x_unit="hours", y_unit="hosts")),
        ("Waiting to be placed", bars(("mean", "95 of 100 at most"), waits, x_unit="", y_unit="minutes")),
        ("Energy", bars(("pool switched off", "with pool idling"), energy, x_unit="", y_unit="kWh")),
    )
    return poster(panels, [LABELS[one.way] for one in results], style=poster_style())
