"""Figures of the code's structure with their limits: `make structure`.

Twins are pairs of classes that share most of their fields: one of the two is a copy that must be kept in step by hand.
A pair that stays has its reason in `TWINS_KEPT`. A figure over its limit in `LIMITS` fails, and so does a twin without
a reason and a reason without a twin. Limits are lowered as the figures fall; a change that adds behavior raises a limit
by what it adds, and its commit says so.
"""

import argparse
import ast
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from muster.cli.output import print_line, print_note

PRODUCTION = ("libs", "proto-schemas", "services")
"""Roots of the product; of the others only the lines are counted."""
ROOT = Path(__file__).parents[2]
METHODS_MAX = 30
"""A class with more methods, inherited ones counted, is listed."""
FIELDS = (5, 8)
"""Twins are counted among classes of at least so many fields."""
SHARED_PERCENT = 60
"""Twins share at least this percentage of the fields of both classes together."""

LIMITS = {
    "lines of the product": 124_080,
    "modules": 702,
    "modules that exactly one other imports": 199,
    "classes of more than 30 methods": 1,
    "twins of at least 5 fields": 12,
    "twins of at least 8 fields": 2,
}

Pair = tuple[str, str]
"""Full names of two classes, in the order of the alphabet."""

_EXPECTED = "a file says only what it expects of the outcome"
_FACTS = "facts keep their fields, and each grows by optional fields of its own"

TWINS_KEPT: Mapping[Pair, str] = {
    ("muster.bus.archive_file.ArchivedMessage", "muster.bus.decode.StoredMessage"): (
        "the lines of an archive are a format of files, with text or base64 for a body"
    ),
    ("muster.core.fact.Fact", "muster.schemas.views.FactView"): "the view has the body as JSON, for clients",
    ("muster.fabric.driver.MachineDevice", "muster.schemas.facts.fabric.OrphanFound"): (
        "drivers report more than the fact says, and the fact keeps its fields"
    ),
    ("muster.gateway.accept.Shape", "muster.openb.trace.OpenbNode"): (
        "a line of the trace is one machine; a shape is a sort of node, with its levels of topology"
    ),
    ("muster.placement.shapes.Slot", "muster.schemas.job.Slot"): (
        "placement makes many slots, which nothing has to validate; how the kubelet picks is not its business"
    ),
    ("muster.schemas.facts.device.DeviceAttached", "muster.schemas.facts.device.DeviceDetached"): _FACTS,
    ("muster.schemas.facts.device.DeviceAttached", "muster.schemas.facts.fabric.OrphanFound"): _FACTS,
    ("muster.schemas.facts.queue.QueueSpec", "muster.simulator.scenario.model.Queue"): (
        "a scenario has amounts in people's units and is read strictly"
    ),
    (
        "muster.schemas.facts.reservation.PendingReservation",
        "muster.schemas.facts.upgrade.PendingCampaignChange",
    ): _FACTS,
    ("muster.simulator.scenario.model.ExpectedJob", "muster.simulator.scenario.outcome.JobOutcome"): _EXPECTED,
    ("muster.simulator.scenario.model.Scenario", "muster.simulator.scenario.plan.Plan"): (
        "the file names equal nodes and jobs by their number; in the plan each stands alone, in the wire's units"
    ),
    ("muster.simulator.scenario.model.ExpectedChoice", "muster.simulator.scenario.scaling.ChoiceOutcome"): (_EXPECTED),
}
"""Why each of the twins that there are stays."""


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """Figures of a class."""

    module: str
    name: str
    bases: tuple[str, ...]
    """In full, as its module imports them or has them."""
    fields: frozenset[str]
    """Annotated in its own body."""
    methods: frozenset[str]
    """Defined in its own body."""

    @property
    def full_name(self) -> str:
        """Return the name with its module."""
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Module:
    """Figures of a module of the product."""

    name: str
    """As it is imported."""
    is_package: bool
    """It is an `__init__.py`: these are not counted as modules."""
    lines: int
    imports: frozenset[str]
    """Names of modules and of what is taken from them, in full."""
    classes: tuple[ClassFigures, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one checkout."""

    lines: Mapping[str, int]
    """By root."""
    modules: tuple[Module, ...]
    wide: tuple[tuple[int, str], ...]
    """Classes of more than `METHODS_MAX` methods, with their number, the widest first."""
    twins: Mapping[Pair, int]
    """With the number of fields of the smaller class."""

    @property
    def figures(self) -> dict[str, int]:
        """Return what has a limit, by name."""
        counted = {f"twins of at least {least} fields": self.twins_of(least) for least in FIELDS}
        return {
            "lines of the product": sum(self.lines.get(root, 0) for root in PRODUCTION),
            "modules": sum(not module.is_package for module in self.modules),
            "modules that exactly one other imports": len(imported_once(self.modules)),
            f"classes of more than {METHODS_MAX} methods": len(self.wide),
            **{name: len(pairs) for name, pairs in counted.items()},
        }

    def twins_of(self, least: int) -> list[Pair]:
        """Return the twins whose classes have at least so many fields."""
        return sorted(pair for pair, fields in self.twins.items() if fields >= least)


def module_of(path: str, text: str) -> Module:
    """Return the figures of one module. path: from the root of the checkout. Raises SyntaxError."""
    inner = path.partition("/")[2].removesuffix(".py")
    name = inner.removesuffix("/__init__").replace("/", ".")
    nodes = list(ast.walk(ast.parse(text, filename=path)))
    taken = _taken(nodes)
    classes = tuple(_class_of(node, name, taken) for node in nodes if isinstance(node, ast.ClassDef))
    return Module(name, inner.endswith("__init__"), text.count("\n"), frozenset(_imports(nodes)), classes)


def imported_once(modules: Iterable[Module]) -> list[str]:
    """Return the modules that exactly one other module imports."""
    known = tuple(modules)
    importers = Counter(name for module in known for name in module.imports - {module.name})
    return sorted(module.name for module in known if importers[module.name] == 1 and not module.is_package)


def wide_classes(modules: Iterable[Module], most: int = METHODS_MAX) -> list[tuple[int, str]]:
    """Return the classes of more than `most` methods, with their number, the widest first."""
    classes = [one for module in modules for one in module.classes]
    known = {one.name: one for one in classes} | {one.full_name: one for one in classes}
    counted = ((len(_methods(one, known)), one.full_name) for one in classes)
    return sorted((found for found in counted if found[0] > most), key=lambda found: (-found[0], found[1]))


def twins(modules: Iterable[Module], least: int = min(FIELDS)) -> dict[Pair, int]:
    """Return the pairs of classes that share most of their fields, with the number of fields of the smaller class."""
    classes = [one for module in modules for one in module.classes if len(one.fields) >= least]
    found = dict[Pair, int]()
    for one, other in combinations(sorted(classes, key=lambda each: each.full_name), 2):
        if 100 * len(one.fields & other.fields) >= SHARED_PERCENT * len(one.fields | other.fields):
            found[one.full_name, other.full_name] = min(len(one.fields), len(other.fields))
    return found


def report_of(texts: Mapping[str, str]) -> Report:
    """Return the figures of all files. texts: by path from the root of the checkout."""
    lines = Counter[str]()
    for path, text in texts.items():
        lines[path.partition("/")[0]] += text.count("\n")
    modules = tuple(module_of(path, text) for path, text in texts.items() if path.partition("/")[0] in PRODUCTION)
    return Report(dict(lines.most_common()), modules, tuple(wide_classes(modules)), twins(modules))


def problems(report: Report, *, limits: Mapping[str, int], kept: Mapping[Pair, str]) -> Iterator[str]:
    """Say what exceeds its limit, which twin has no reason, and which reason no twin."""
    for name, figure in report.figures.items():
        if figure > limits[name]:
            yield f"{name}: {figure}, at most {limits[name]}; bring it down (LIMITS of muster_tools.structure)"
    for pair in sorted(report.twins.keys() - kept.keys()):
        yield f"{' = '.join(pair)}: twins; make them one class, or say in TWINS_KEPT why they stay"
    for pair in sorted(kept.keys() - report.twins.keys()):
        yield f"{' = '.join(pair)}: no twins any more; remove the reason from TWINS_KEPT"


def written(report: Report, *, limits: Mapping[str, int]) -> Iterator[str]:
    """Return the figures for people, a line each."""
    yield f"lines by root: {', '.join(f'{root} {lines}' for root, lines in report.lines.items())}"
    if any(not module.is_package for module in report.modules):
        median = statistics.median(module.lines for module in report.modules if not module.is_package)
        yield f"lines of a module: {median:g} (median)"
    for name, figure in report.figures.items():
        yield f"{name}: {figure} (at most {limits[name]})"
    for methods, name in report.wide:
        yield f"  {methods} methods: {name}"
    for pair in report.twins_of(min(FIELDS)):
        yield f"  at least {report.twins[pair]} fields: {' = '.join(pair)}"


def tracked_files(root: Path) -> dict[str, str]:
    """Return the text of each Python file that git tracks in a checkout. Raises OSError, CalledProcessError."""
    asked = ["git", "-C", str(root), "ls-files", "*.py"]
    names = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603
    return {name: (root / name).read_text(encoding="utf-8") for name in names if (root / name).exists()}


def main(arguments: Sequence[str]) -> int:
    """Print the figures; the exit code is 1 where one exceeds its limit or a twin has no reason."""
    parser = argparse.ArgumentParser(description="Figures of the code's structure, compared with their limits.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="Root of a checkout; this one by default.")
    report = report_of(tracked_files(parser.parse_args(arguments).root))
    found = list(problems(report, limits=LIMITS, kept=TWINS_KEPT))
    for line in written(report, limits=LIMITS):
        print_line(line)
    for line in found:
        print_note(line)
    return 1 if found else 0


def _class_of(node: ast.ClassDef, module: str, taken: Mapping[str, str]) -> ClassFigures:
    fields = (one.target for one in node.body if isinstance(one, ast.AnnAssign))
    return ClassFigures(
        module,
        node.name,
        tuple(taken.get(name, f"{module}.{name}") for base in node.bases if (name := _base_name(base))),
        frozenset(target.id for target in fields if isinstance(target, ast.Name)),
        frozenset(one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)),
    )


def _base_name(base: ast.expr) -> str:
    """Return the class's own name: `Base` of `Base`, `module.Base` and `Base[T]`."""
    match base:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _base_name(value)
        case _:
            return ""


def _taken(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return what a module takes from others: the full name by the name that it has here."""
    taken = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in taken for alias in node.names}


def _imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                pass


def _methods(
    one: ClassFigures, known: Mapping[str, ClassFigures], seen: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Return its own and those of its bases. known: by full name; by the name alone, for what a package passes on."""
    found = one.methods
    for name in one.bases:
        base = known.get(name) or known.get(name.rpartition(".")[2])
        if base is not None and base.full_name not in seen | {one.full_name}:
            found |= _methods(base, known, seen | {one.full_name})
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
