"""Charts as SVG text, and the style sheets of pages and charts: no script, no font, no address; light or dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LIGHT = ("#3a6ea5", "#c8553d", "#4f8a5b", "#8a5a9e", "#b58b22", "#3c8d93", "#a04668", "#6b705c")
DARK = ("#7fb0e6", "#ee8a73", "#86c795", "#c095d6", "#e0bd5d", "#73c6cc", "#de8aaa", "#aab09a")

_PAPER = """
:root { color-scheme: light dark; --ink: #1d2129; --dim: #5c6470; --line: #d9dde3; --paper: #fff; --panel: #f6f7f9 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ec; --dim: #9aa3af; --line: #333a45; --paper: #14171c; --panel: #1b2027 }
}
"""
_MARKS = """
.grid { stroke: var(--line); stroke-width: 1 }
.tick, .unit { fill: var(--dim); font-size: 11px }
.line { fill: none; stroke-width: 1.6 }
.area { stroke: none; opacity: .85 }
"""
_PAGE = """
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1180px; padding: 1.5rem }
h1 { font-size: 1.5rem; margin: 0 0 .2rem }
h2 { font-size: 1.1rem; margin: 2rem 0 .4rem }
p { max-width: 75ch; color: var(--dim); margin: .2rem 0 .8rem }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); gap: 1rem }
figure { margin: 0; background: var(--panel); border-radius: 8px; padding: .6rem }
figcaption { font-size: .9rem; font-weight: 600; margin: 0 0 .3rem }
svg { width: 100%; height: auto; display: block }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0 0; padding: 0;
  font-size: .8rem; color: var(--dim) }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left }
thead th { color: var(--dim); font-weight: 600 }
"""


_POSTER = """
text { font-family: system-ui, sans-serif; fill: var(--ink); font-size: 13px }
.title { font-weight: 600 }
.paper { fill: var(--paper) }
"""


def style_sheet() -> str:
    """Return the page's style rules, with a class for each color of its charts: kc0 and ka0 are keys of the legend."""
    return f"{_PAPER}{_PAGE}{_MARKS}{_colours()}"


def poster_style() -> str:
    """Return the style rules of the charts in a standalone SVG."""
    return f"{_PAPER}{_POSTER}{_MARKS}{_colours()}"


def _colours() -> str:
    """Return a class for each color: c0 lines, a0 areas."""
    classes = "".join(
        f".c{index}{{stroke:var(--c{index})}}.a{index}{{fill:var(--c{index})}}"
        f".kc{index},.ka{index}{{background:var(--c{index})}}"
        for index in range(len(LIGHT))
    )
    dark = f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{{_variables(LIGHT)}}}{dark}{classes}"


def _variables(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{index}:{colour};" for index, colour in enumerate(colours))


WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 12, 38
COLOURS = 8
TICKS = 5
POSTER_HEAD, POSTER_TITLE, POSTER_KEY = 40, 30, 230


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a name, and y at each x."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places. x_most, y_most: at the right and the upper edge; 0 is at the left and the lower one."""

    x_most: float
    y_most: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / (self.x_most or 1)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value, self.y_most) / (self.y_most or 1)


def lines(series: Sequence[Series], *, x_unit: str, y_unit: str, y_most: float | None = None) -> str:
    """Steps over time: each value holds until the next."""
    scale = _scale(series, y_most)
    drawn = []
    for index, one in enumerate(series):
        path = _steps(scale, one.x, one.y)
        drawn.append(f'<path class="line c{index % COLOURS}" d="M{path}"><title>{escape(one.name)}</title></path>')
    return _chart(scale, "".join(drawn), [one.name for one in series], x_unit, y_unit)


def stacked(series: Sequence[Series], *, x_unit: str, y_unit: str, y_most: float | None = None) -> str:
    """Areas on top of each other, the first at the bottom. All series have the same x."""
    if not series:
        return _chart(_Scale(1, 1), "", [], x_unit, y_unit)
    below = [0.0] * len(series[0].x)
    tops = []
    for one in series:
        below = [low + value for low, value in zip(below, one.y, strict=True)]
        tops.append(below)
    scale = _scale([Series("", series[0].x, below)], y_most)
    drawn = []
    low = [0.0] * len(series[0].x)
    for index, (one, top) in enumerate(zip(series, tops, strict=True)):
        upper, lower = _steps(scale, one.x, top), _steps(scale, one.x, low, backwards=True)
        drawn.append(
            f'<path class="area a{index % COLOURS}" d="M{upper}L{lower}Z"><title>{escape(one.name)}</title></path>'
        )
        low = top
    return _chart(scale, "".join(drawn), [one.name for one in series], x_unit, y_unit, areas=True)


def bars(labels: Sequence[str], series: Sequence[Series], *, x_unit: str, y_unit: str) -> str:
    """Return a group of bars for each label, one bar for each series; y of a series is in the order of labels."""
    scale = _Scale(len(labels) or 1, _nice(max((max(one.y, default=0) for one in series), default=0)))
    drawn = []
    room = (scale.x(1) - scale.x(0)) * 0.8
    for at, label in enumerate(labels):
        left = scale.x(at) + room * 0.125
        for index, one in enumerate(series):
            top = scale.y(one.y[at])
            drawn.append(
                f'<rect class="a{index % COLOURS}" x="{left + index * room / len(series):.1f}" y="{top:.1f}" '
                f'width="{room / len(series) * 0.92:.1f}" height="{HEIGHT - BOTTOM - top:.1f}">'
                f"<title>{escape(one.name)}, {escape(label)}: {one.y[at]:,.6g} {escape(y_unit)}</title></rect>"
            )
        drawn.append(
            f'<text class="tick" x="{scale.x(at + 0.5):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    return _chart(scale, "".join(drawn), [one.name for one in series], x_unit, y_unit, areas=True, x_ticks=False)


def poster(panels: Sequence[tuple[str, str]], names: Sequence[str], *, style: str, columns: int = 2) -> str:
    """Several charts as one SVG file that needs no page. panels: title, figure. names: of the series, for the legend.

    style: the sheet that the file carries, see `style.poster_style`.
    """
    height = HEIGHT + POSTER_TITLE
    rows = -(-len(panels) // columns)
    drawn = [
        f'<rect class="a{index % COLOURS}" x="{LEFT + index * POSTER_KEY}" y="14" width="12" height="12"/>'
        f'<text x="{LEFT + index * POSTER_KEY + 18}" y="25">{escape(name)}</text>'
        for index, name in enumerate(names)
    ]
    for index, (title, figure) in enumerate(panels):
        left, top = index % columns * WIDTH, POSTER_HEAD + index // columns * height
        inner = figure[figure.index("<svg ") : figure.index("</svg>")].replace(
            "<svg ", f'<svg x="{left}" y="{top + POSTER_TITLE}" width="{WIDTH}" height="{HEIGHT}" ', 1
        )
        drawn.append(f'<text class="title" x="{left + LEFT}" y="{top + 18}">{escape(title)}</text>{inner}</svg>')
    wide, high = columns * WIDTH, POSTER_HEAD + rows * height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">'
        f'<style>{style}</style><rect class="paper" width="{wide}" height="{high}"/>{"".join(drawn)}</svg>\n'
    )


def _scale(series: Sequence[Series], y_most: float | None) -> _Scale:
    x_most = max((max(one.x, default=0.0) for one in series), default=1.0)
    highest = max((max(one.y, default=0.0) for one in series), default=1.0)
    return _Scale(x_most or 1.0, _nice(highest) if y_most is None else y_most)


def _nice(value: float) -> float:
    """Return a round number not below the value: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


def _steps(scale: _Scale, x: Sequence[float], y: Sequence[float], *, backwards: bool = False) -> str:
    points: list[tuple[float, float]] = []
    for index, value in enumerate(y):
        if index:
            points.append((scale.x(x[index]), points[-1][1]))
        points.append((scale.x(x[index]), scale.y(value)))
    if backwards:
        points.reverse()
    return "L".join(f"{left:.1f},{top:.1f}" for left, top in points)


def _chart(
    scale: _Scale,
    drawn: str,
    names: Sequence[str],
    x_unit: str,
    y_unit: str,
    *,
    areas: bool = False,
    x_ticks: bool = True,
) -> str:
    grid = "".join(_y_tick(scale, index) for index in range(TICKS + 1))
    if x_ticks:
        grid += "".join(_x_tick(scale, index) for index in range(TICKS + 1))
    kind = "a" if areas else "c"
    legend = "".join(
        f'<li><span class="key k{kind}{index % COLOURS}"></span>{escape(name)}</li>' for index, name in enumerate(names)
    )
    what = ", ".join(names)
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_unit)}: {escape(what)}">'
        f"{grid}{drawn}"
        f'<text class="unit" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(x_unit)}</text>'
        f'<text class="unit" x="{LEFT}" y="{TOP + 2}" dx="6">{escape(y_unit)}</text></svg>'
        f"<ul class=legend>{legend}</ul></figure>"
    )


def _y_tick(scale: _Scale, index: int) -> str:
    value = scale.y_most * index / TICKS
    y = scale.y(value)
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>'
    )


def _x_tick(scale: _Scale, index: int) -> str:
    value = scale.x_most * index / TICKS
    return (
        f'<text class="tick" x="{scale.x(value):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">'
        f"{value:,.4g}</text>"
    )
