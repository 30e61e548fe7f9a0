"""A job's tree without what only repeats: of many devices attached alike, the slowest stands for all. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.cli.trace_tree import Span

ATTACHMENT = "attachment"
ALIKE_MAX = 2  # devices that were attached for the same reason are shown one by one up to so many


@dataclass(frozen=True, slots=True)
class Shown:
    """Spans that are drawn, depth first. alike: by the first span of a device, how many others went the same way."""

    spans: tuple[Span, ...]
    alike: Mapping[str, int]


def without_repeats(spans: Sequence[Span]) -> Shown:
    """Leave out devices that hang under the same fact as another one, if nothing but their own facts hangs below them.

    The one whose last fact came last stays, since the job waited for that one.
    """
    first, last_at, alone = dict[str, Span](), dict[str, int](), dict[str, bool]()
    above = {span.id: span for span in spans}
    for span in spans:
        owner = _device(span)
        parent = _device(above[span.parent]) if span.parent in above else ""
        if parent and parent != owner:
            alone[parent] = False  # something else follows from it
        if owner and parent != owner:
            alone[owner] = owner not in first
            first.setdefault(owner, span)
        if owner:
            last_at[owner] = max(span.time, last_at.get(owner, 0))
    groups: dict[tuple[str, str], list[str]] = {}
    for owner, span in first.items():
        groups.setdefault((span.parent, span.name), []).append(owner)
    left_out, alike = set[str](), dict[str, int]()
    for owners in groups.values():
        slowest = max(owners, key=lambda owner: (last_at[owner], owner))
        others = [owner for owner in owners if owner != slowest and alone[owner]]
        if len(owners) > ALIKE_MAX and others:
            left_out.update(others)
            alike[first[slowest].id] = len(others)
    return Shown(tuple(span for span in spans if _device(span) not in left_out), alike)


def _device(span: Span) -> str:
    return span.subject_id if span.kind == ATTACHMENT else ""
