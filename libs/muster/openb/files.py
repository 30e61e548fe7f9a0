"""A replay's report as files: report.json, allocation.csv, allocation.png."""

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from muster.openb.report import ReplayReport, allocation_csv


def write_report(report: ReplayReport, folder: Path) -> tuple[Path, ...]:
    """Write the three files into `folder`, made if need be; their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.json": report.model_dump_json(indent=2).encode(),
        "allocation.csv": allocation_csv(report).encode(),
        "allocation.png": allocation_png(report),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return tuple(folder / name for name in contents)


def allocation_png(report: ReplayReport) -> bytes:
    """GPUs allocated and tasks placed over the trace's time, drawn without a display."""
    figure = Figure(figsize=(10, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # Agg, whatever the environment asks for: nobody looks
    axes = figure.add_subplot()
    days = [point.trace_h / 24 for point in report.allocation]
    axes.fill_between(days, [point.gpus for point in report.allocation], step="post", alpha=0.35)
    axes.step(days, [point.gpus for point in report.allocation], where="post", label="GPUs allocated")
    axes.step(days, [point.tasks for point in report.allocation], where="post", label="tasks placed", linewidth=0.8)
    axes.set_xlabel(f"time of the trace (days), replayed in {report.wall_s:,.0f} s, planned {report.planned_s:,.0f} s")
    axes.set_ylabel("GPUs, tasks")
    axes.set_ylim(bottom=0)
    axes.set_title(
        f"{report.placed:,} of {report.tasks:,} tasks placed on {report.nodes:,} nodes with {report.gpus:,} GPUs,"
        f" at most {report.gpus_allocated_max:,.1f} GPUs at once"
    )
    axes.legend(loc="upper left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
