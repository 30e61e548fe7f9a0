"""Reads a node's page by what was learnt from the one before it: its lines stay, and only their values change.

A page is cut at its values. If what is left is what was left of the page before, every value means what it meant
there. Of that rest a hash is kept, not its 100 KB. Whatever is not exactly so plain is read whole
(`muster.telemetry.core.pages`), which stays the judge of what a page says; docs/benchmarks.md has the times.
"""

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from muster.telemetry.core.layouts import Key, Layout, Part, Picker, learn
from muster.telemetry.core.names import Number, is_blank
from muster.telemetry.core.pages import Gpu, Instance, Page, count, keep_greatest, read_page

LAYOUTS_MAX = 256
"""Kinds of pages that nodes share; when there are more they are gathered anew."""
_VALUE = re.compile(r"\} ([0-9.]+)\n")
"""What is cut out. A value of any other form (a sign, an exponent, NaN, a time behind it) stays with the rest."""
_CUT = "\x00"
"""Between the pieces of the rest. A page that has one itself gives no plan; so the number of values shows any other."""
_PLAIN_MAX = 2**31 - 16
"""Below it, and not below 0, no number is blank."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """An instance as its labels say. Fields: see `Instance`."""

    key: str
    profile: str
    owners: tuple[str, ...]
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is remembered of a page. rest: hash of what is left of it without its values; values: how many it has.

    gpus: uuid, index, model, instances.
    """

    rest: int
    values: int
    layout: Layout
    driver: str
    gpus: tuple[tuple[str, int | None, str, tuple[_Owned, ...]], ...]


class Pages:
    """Reads pages of many nodes, and remembers a plan for each."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._layouts: dict[Key, Layout] = {}

    def read(self, node: str, text: str) -> Page:
        """What `read_page` says of the node's page. Raises PageError."""
        pieces = _VALUE.split(text)
        heads, digits = pieces[::2], pieces[1::2]
        rest = hash(_CUT.join(heads))
        plan = self._plans.get(node)
        if plan is None or plan.rest != rest or plan.values != len(digits):
            plan = None if _CUT in text else self._learnt(heads, rest, lines=text.count("\n") + 1)
            if plan is None:
                self._plans.pop(node, None)
                return read_page(text)
            self._plans[node] = plan
        page = _by_plan(plan, digits)
        return read_page(text) if page is None else page

    def keep(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        for node in [node for node in self._plans if node not in nodes]:
            del self._plans[node]

    def _learnt(self, heads: Sequence[str], rest: int, *, lines: int) -> Plan | None:
        found = learn(heads, lines=lines)
        if found is None:
            return None
        key, page = found
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= LAYOUTS_MAX:
                self._layouts.clear()
            layout = self._layouts[key] = Layout(key)
        return Plan(rest, len(heads) - 1, layout, page.driver, tuple(map(_gpu, page.gpus.values())))


def _by_plan(plan: Plan, digits: Sequence[str]) -> Page | None:
    """The page with these values; None if one of them is to be looked at more closely."""
    try:
        numbers: list[Number] = json.loads(f"[{','.join(digits)}]")
    except ValueError:  # one begins with a 0, or has no digit on one side of its point
        return None
    layout = plan.layout
    blank = [place for place, number in enumerate(numbers) if number >= _PLAIN_MAX and is_blank(number)]
    if not layout.labelled.isdisjoint(blank):
        return None
    told: list[Number | None] = [*numbers]
    for place, convert in layout.converted:
        told[place] = convert(numbers[place])
    for place in blank:
        told[place] = None
    page = Page(driver=plan.driver)
    parts = iter(layout.parts)
    for uuid, index, model, instances in plan.gpus:
        gpu = page.gpus[uuid] = Gpu(uuid, index, model)
        for owned in instances:
            part, first, levels = next(parts)
            gpu.instances[owned.key] = _instance(owned, part, (first, levels), numbers, told=told)
    return page


def _instance(
    owned: _Owned,
    part: Part,
    pickers: tuple[Picker, Picker],
    numbers: Sequence[Number],
    *,
    told: Sequence[Number | None],
) -> Instance:
    """told: the same numbers in Muster's units, None where one is blank; those with labels of their own are none."""
    first, levels = pickers
    values = {of: value for of, value in zip(part.fields, first(told), strict=True) if value is not None}
    instance = Instance(owned.profile, values, dict.fromkeys(owned.owners), dict.fromkeys(owned.jobs))
    for place, of in part.again:
        value = told[place]
        if value is not None:
            keep_greatest(instance, of, value)
    if part.watches:
        judged = zip(map(int, levels(numbers)), part.codes, strict=True)
        instance.watches = dict(zip(part.watches, judged, strict=True))
    for place, of, what in part.counts:
        count(instance, of, what, int(numbers[place]))
    return instance


def _gpu(gpu: Gpu) -> tuple[str, int | None, str, tuple[_Owned, ...]]:
    instances = tuple(
        _Owned(key, one.profile, tuple(one.owners), tuple(one.jobs)) for key, one in gpu.instances.items()
    )
    return gpu.uuid, gpu.index, gpu.model, instances
