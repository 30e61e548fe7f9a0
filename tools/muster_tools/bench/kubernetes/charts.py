"""The comparison as one picture: bound workloads over time, waiting time, and cost."""

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from muster_tools.bench.kubernetes.result import API_SERVER, Result

CHART = "kubernetes.png"


def chart(results: Sequence[Result]) -> bytes:
    """Return a PNG, drawn without a display."""
    figure = Figure(figsize=(13, 9), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)  # Agg, whatever the environment asks for: there is no display
    grid = figure.subplots(2, 2)
    _bound_over_time(grid[0][0], results)
    _bars(grid[0][1], results, "created to bound, p99 (s)", [one.latency_ms.p99 / 1000 for one in results])
    _stacked(
        grid[1][0], results, "most memory (MiB)",
        [one.peak_mib.get(API_SERVER, 0.0) for one in results], [one.own_peak_mib for one in results],
    )  # fmt: skip
    _stacked(
        grid[1][1], results, "processor time (s)",
        [one.cpu_s.get(API_SERVER, 0.0) for one in results], [one.own_cpu_s for one in results],
    )  # fmt: skip
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _bound_over_time(axes: Axes, results: Sequence[Result]) -> None:
    for one in results:
        axes.plot(one.bound_at_s, range(1, len(one.bound_at_s) + 1), label=one.contender.value)
    axes.set_xlabel("seconds since the first was created")
    axes.set_ylabel("workloads bound")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best", fontsize="small")


def _bars(axes: Axes, results: Sequence[Result], title: str, values: Sequence[float]) -> None:
    axes.barh([one.contender.value for one in results], values)
    axes.invert_yaxis()
    axes.set_xlabel(title)


def _stacked(axes: Axes, results: Sequence[Result], title: str, servers: Sequence[float], own: Sequence[float]) -> None:
    names = [one.contender.value for one in results]
    axes.barh(names, servers, label="API server")
    axes.barh(names, own, left=servers, label="schedulers, or Muster")
    axes.invert_yaxis()
    axes.set_xlabel(title)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="small")
