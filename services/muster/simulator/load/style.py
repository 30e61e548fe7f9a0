"""Style sheets of the report page and of charts by themselves: light or dark, as the reader's system has it."""

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
    """The page's rules, and a class for each colour of its charts: kc0 and ka0 are keys of the legend."""
    return f"{_PAPER}{_PAGE}{_MARKS}{_colours()}"


def poster_style() -> str:
    """The rules of charts that stand in one SVG by themselves."""
    return f"{_PAPER}{_POSTER}{_MARKS}{_colours()}"


def _colours() -> str:
    """A class for each colour: c0 lines, a0 areas."""
    classes = "".join(
        f".c{index}{{stroke:var(--c{index})}}.a{index}{{fill:var(--c{index})}}"
        f".kc{index},.ka{index}{{background:var(--c{index})}}"
        for index in range(len(LIGHT))
    )
    dark = f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{{_variables(LIGHT)}}}{dark}{classes}"


def _variables(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{index}:{colour};" for index, colour in enumerate(colours))
