"""The report as one self-contained HTML page, dark or light as the reader's system; one run, or several."""

from collections.abc import Callable, Sequence
from html import escape

from muster.simulator.load.report import OTHERS, Report, Wait
from muster.simulator.load.svg import Series, bars, lines, stacked, style_sheet

QUEUES_MAX = 60
"""Rows of the table by queue; jobs.csv has everything."""


def page(reports: Sequence[Report], *, title: str) -> str:
    """Return the whole page. reports: at least one; several are shown side by side, so their policies should differ."""
    first = reports[0]
    shared = f"{first.load}; {first.gpus:,.0f} GPUs, {first.jobs:,} jobs"
    body = [
        f"<h1>{escape(title)}</h1><p>{escape(shared)}</p>",
        _summary(reports),
        "<h2>Over time</h2>",
        f'<div class="charts">{"".join(_over_time(reports))}</div>',
        "<h2>Who held what</h2>",
        f'<div class="charts">{"".join(_held(report) for report in reports)}</div>',
        "<h2>Waiting, by size of job</h2>",
        _by_size(reports),
        _waits(reports, lambda report: report.by_size, "size"),
        "<h2>Waiting, by queue</h2>",
        _waits(reports, lambda report: report.by_queue[:QUEUES_MAX], "queue"),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style_sheet()}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _summary(reports: Sequence[Report]) -> str:
    rows: list[tuple[str, Callable[[Report], str]]] = [
        ("utilisation", lambda report: f"{report.utilisation_pct:.1f} %"),
        ("GPU hours used", lambda report: f"{report.used_gpu_h:,.0f}"),
        ("GPU hours lost", lambda report: f"{report.lost_gpu_h:,.1f}"),
        ("preemptions", lambda report: f"{report.preemptions:,}"),
        ("runs lost with a node", lambda report: f"{report.node_losses:,}"),
        ("how jobs ended", lambda report: ", ".join(f"{count:,} {how}" for how, count in report.ended.items())),
        ("time simulated", lambda report: f"{report.virtual_s / 86_400:,.2f} days"),
        ("facts", lambda report: f"{report.facts:,}"),
    ]
    head = "".join(f"<th>{escape(report.policy)}</th>" for report in reports)
    body = "".join(
        f"<tr><td>{name}</td>{''.join(f'<td>{escape(value(report))}</td>' for report in reports)}</tr>"
        for name, value in rows
    )
    return _table(f"<tr><th></th>{head}</tr>", body)


def _over_time(reports: Sequence[Report]) -> list[str]:
    def drawn(value: Callable[[int, Report], float]) -> list[Series]:
        return [
            Series(
                report.policy,
                [point.hours for point in report.points],
                [value(index, report) for index in range(len(report.points))],
            )
            for report in reports
        ]

    return [
        _titled("GPUs allocated", lines(drawn(lambda at, report: report.points[at].allocated_pct),
                                        x_unit="hours", y_unit="% of the fleet", y_most=100)),
        _titled("GPUs that waiting jobs ask for", lines(drawn(lambda at, report: report.points[at].waiting),
                                                        x_unit="hours", y_unit="GPUs")),
        _titled("Fairness between those who want something", lines(
            drawn(lambda at, report: report.points[at].index), x_unit="hours", y_unit="Jain's index", y_most=1)),
        _titled("Idle GPUs that a typical task cannot use", lines(
            drawn(lambda at, report: report.points[at].fragmentation_pct), x_unit="hours", y_unit="% of the idle",
            y_most=100)),
        _titled("Preemptions so far", lines(drawn(lambda at, report: report.points[at].preemptions),
                                            x_unit="hours", y_unit="runs")),
        _titled("Work lost so far", lines(drawn(lambda at, report: report.points[at].lost_gpu_h),
                                          x_unit="hours", y_unit="GPU hours")),
    ]  # fmt: skip


def _held(report: Report) -> str:
    groups = sorted({group for point in report.points for group in point.held}, key=lambda name: (name == OTHERS, name))
    hours = [point.hours for point in report.points]
    series = [Series(group, hours, [point.held.get(group, 0.0) for point in report.points]) for group in groups]
    chart = stacked(series, x_unit="hours", y_unit="GPUs", y_most=report.gpus or None)
    return _titled(f"GPUs held by queue: {report.policy}", chart)


def _by_size(reports: Sequence[Report]) -> str:
    labels = list(dict.fromkeys(wait.of for report in reports for wait in report.by_size))
    series = []
    for report in reports:
        found = {wait.of: wait.p90_s / 60 for wait in report.by_size}
        series.append(Series(report.policy, [], [found.get(label, 0.0) for label in labels]))
    chart = bars(labels, series, x_unit="GPUs of the job", y_unit="minutes")
    return f'<div class="charts">{_titled("Nine of ten waited at most", chart)}</div>'


def _waits(reports: Sequence[Report], waits: Callable[[Report], Sequence[Wait]], of: str) -> str:
    head = "".join(
        f"<th>{escape(report.policy)}: jobs</th><th>never placed</th><th>mean</th><th>p50</th><th>p90</th><th>p99</th>"
        "<th>longest</th>"
        for report in reports
    )
    found = [{wait.of: wait for wait in waits(report)} for report in reports]
    names = list(dict.fromkeys(name for of_report in found for name in of_report))
    body = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(_cells(of_report.get(name)) for of_report in found)}</tr>"
        for name in names
    )
    return _table(f"<tr><th>{of}</th>{head}</tr>", body)


def _cells(wait: Wait | None) -> str:
    if wait is None:
        return "<td></td>" * 7
    times = (wait.mean_s, wait.p50_s, wait.p90_s, wait.p99_s, wait.max_s)
    return f"<td>{wait.jobs:,}</td><td>{wait.waiting:,}</td>" + "".join(f"<td>{_time(s)}</td>" for s in times)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def _titled(title: str, figure: str) -> str:
    return figure.replace("<figure>", f"<figure><figcaption>{escape(title)}</figcaption>", 1)


def _table(head: str, body: str) -> str:
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'
