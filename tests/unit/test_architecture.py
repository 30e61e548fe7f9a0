"""What the architecture page and the contribution guide name is in the code: files, classes in them, and how many."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
NAMING_FILES = (
    "docs/architecture.md",
    "CONTRIBUTING.md",
    *sorted(f"{p.relative_to(ROOT)}" for p in ROOT.glob("libs/muster/*/README.md")),
)
PATH = re.compile(r"\b(?:proto-schemas|libs|services|tools|tests|compose|k8s|docs|examples)/[\w./*-]*[\w*]")
PICTURE = re.compile(r"^```mermaid\n(.*?)^```\n(.*?)(?=^\||^```|^#|\Z)", re.MULTILINE | re.DOTALL)
BOX = re.compile(r'"([\w/.-]+\.py)(?:<br/>(\w+))?"')
FORMS = re.compile(r"takes (\d+) forms.*?^\|---.*?\n(.*?)\n\n", re.MULTILINE | re.DOTALL)
GPUS = frozenset({"amounts", "devices", "gpu_count", "gpu_milli", "gpus"})
"""Fields that say how many GPUs, or which."""
COUNTS = re.compile(r"It has (\d+) modules\s+and\s+(\d+) classes")


def pictures() -> list[tuple[str, str]]:
    """Return each picture of the page that has files, with the text below it."""
    return [
        (picture, text) for picture, text in PICTURE.findall(PAGE.read_text(encoding="utf-8")) if BOX.search(picture)
    ]


@pytest.mark.parametrize("page", NAMING_FILES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    named = set(PATH.findall((ROOT / page).read_text(encoding="utf-8")))
    assert [path for path in sorted(named) if not any(ROOT.glob(path))] == []


def test_every_box_of_a_picture_names_a_class_that_its_file_has() -> None:
    boxes = {box for picture, _ in pictures() for box in BOX.findall(picture)}
    assert len(boxes) > 80, "the pictures are read"
    wrong = [
        f"{path}: {name}"
        for path, name in sorted(boxes)
        if name and not re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_every_class_in_a_picture_is_defined_in_the_repository() -> None:
    named = {name for picture, _ in pictures() for _, name in BOX.findall(picture) if name}
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for root in ("proto-schemas", "libs", "services")
        for path in ROOT.glob(f"{root}/**/*.py")
    )
    assert [
        name
        for name in sorted(named)
        if not re.search(rf"^(class {name}\b|{name}(: TypeAlias)? = )", source, re.MULTILINE)
    ] == []


def test_the_counts_below_a_picture_are_those_of_the_picture() -> None:
    for picture, text in pictures():
        told = COUNTS.search(text)
        assert told is not None, f"no counts below the picture: {text}"
        boxes = BOX.findall(picture)
        counted = (len({path for path, _ in boxes}), len({name for _, name in boxes if name}))
        assert (int(told[1]), int(told[2])) == counted, text


def fields(source: str) -> Iterator[tuple[str, set[str]]]:
    """Each class of a module with the names of its own fields."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            annotated = {part.target.id for part in node.body if _is_field(part)}  # type: ignore[attr-defined]
            slots = [part.value for part in node.body if isinstance(part, ast.Assign) and _is_slots(part)]
            yield node.name, annotated | {name for value in slots for name in ast.literal_eval(value)}


def _is_field(part: ast.stmt) -> bool:
    return isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)


def _is_slots(part: ast.Assign) -> bool:
    return isinstance(part.targets[0], ast.Name) and part.targets[0].id == "__slots__"


def test_the_forms_of_the_gpus_on_the_way_of_a_job_are_all_named() -> None:
    found = FORMS.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, "the page has the table"
    rows = found[2].split("\n")
    assert len(rows) == int(found[1]) <= 12
    forms = {match[1] for row in rows if (match := re.match(r"\| `(\w+)`", row))}
    picture = next(picture for picture, _ in pictures() if "cli/job_spec.py" in picture)
    boxes = BOX.findall(picture)
    on_the_way = {name for _, name in boxes}
    with_gpus = {
        name
        for path in {path for path, _ in boxes}
        for name, own in fields((ROOT / path).read_text(encoding="utf-8"))
        if name in on_the_way and own & GPUS
    }
    assert "EquivalenceClass" in with_gpus, "classes are read"
    assert sorted(with_gpus - forms) == []
