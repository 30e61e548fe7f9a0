"""The table of facts as a page: who alone may write which, on which stream, with which fields. Pure."""

from collections.abc import Collection, Iterable
from typing import cast

from muster.schemas.registry import ANY_SERVICE, FactType, StreamRole
from muster_tools.site.markdown import code, prose, table

HEAD = """# Facts

Everything that is kept. One service alone may write each of these; whatever else says it goes to the dead letters. The
types of the fields are on [the page of bodies](events/bodies.md); subjects, and who reads what, on [the page of each
service](events/index.md).

Fields in bold are needed; the others were added later or may be left out.
"""
STREAMS = {
    StreamRole.LOG: ("The cluster's log", "`LOG_<cluster>`: the truth about one cluster, one for each."),
    StreamRole.FED: ("The federation's log", "`FED`: what was asked for, and which cluster it went to."),
    StreamRole.FED_UP: (
        "What clusters report",
        "`FED_UP`: ends of jobs and summaries, on their way to the federation.",
    ),
}


def page(facts: Iterable[FactType], states: Iterable[FactType], *, bodies: Collection[str]) -> str:
    """One page. states: facts that stand in checkpoints only. bodies: names that the page of bodies has."""
    rows = list(facts)
    parts = [HEAD]
    for stream, (title, told) in STREAMS.items():
        listed = sorted((row for row in rows if row.stream is stream), key=lambda row: (row.kind, row.name, row.writer))
        parts.append(f"## {title}\n\n{told}\n\n{_table(listed, bodies)}")
    kept = sorted(states, key=lambda row: (row.stream, row.kind, row.writer))
    parts.append(
        f"## Checkpoints\n\nFacts that tell a whole state; they never stand in a log.\n\n{_table(kept, bodies)}"
    )
    return "\n".join(parts)


def _table(rows: Iterable[FactType], bodies: Collection[str]) -> str:
    return table(("fact", "writer", "body", "fields"), (_row(row, bodies) for row in rows))


def _row(row: FactType, bodies: Collection[str]) -> tuple[str, ...]:
    name = row.payload.__name__
    body = f"[{name}](events/bodies.md#{name.lower()})" if name in bodies else name
    schema = row.payload.model_json_schema()
    required = cast("list[str]", schema.get("required", []))
    names = cast("dict[str, object]", schema.get("properties", {}))
    fields = (f"**{prose(name)}**" if name in required else prose(name) for name in names)
    writer = "any service" if row.writer == ANY_SERVICE else row.writer
    return code(f"{row.kind} {row.name}"), writer, body, ", ".join(fields)
