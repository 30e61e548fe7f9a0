"""Figures of the code's structure: what is counted, and what fails."""

import subprocess
from pathlib import Path

import pytest

from muster_tools.structure import (
    LIMITS,
    Report,
    imported_once,
    main,
    module_of,
    problems,
    report_of,
    twins,
    wide_classes,
    written,
)

COPY = ("muster.a.One", "muster.b.Copy")
TWINS = {
    "libs/muster/a.py": "class One:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int\n",
    "services/muster/b.py": "class Copy:\n    a: int\n    b: int\n    c: int\n    d: int\n    f: int\n",
}


def found(texts: dict[str, str], *, kept: dict[tuple[str, str], str] | None = None, **limits: int) -> list[str]:
    """limits: those of the product's figures, with `_` for a space."""
    own = {name.replace("_", " "): limit for name, limit in limits.items()}
    return list(problems(report_of(texts), limits=LIMITS | own, kept=kept or {}))


def test_modules_are_called_as_they_are_imported_and_packages_are_no_modules() -> None:
    inner, package = module_of("libs/muster/bus/log.py", ""), module_of("libs/muster/bus/__init__.py", "")
    assert (inner.name, inner.is_package) == ("muster.bus.log", False)
    assert (package.name, package.is_package) == ("muster.bus", True)


@pytest.mark.parametrize("line", ["from muster.a import One", "from muster import a", "import muster.a"])
def test_a_module_that_exactly_one_other_imports_is_listed_however_it_does(line: str) -> None:
    once = module_of("libs/muster/a.py", "One = 1\n")
    first, second = module_of("services/muster/x.py", line), module_of("services/muster/y.py", line)
    assert imported_once([once, first]) == ["muster.a"]
    assert imported_once([once, first, second]) == []


def test_inherited_methods_count_once_and_of_the_base_that_is_imported() -> None:
    base = module_of("libs/muster/a.py", "class Base:\n    def f(self): ...\n    def g(self): ...\n")
    other = module_of("libs/muster/z.py", "class Base:\n    pass\n")
    wide = module_of(
        "libs/muster/b.py",
        "from muster.a import Base\nclass Wide(Base):\n    def g(self): ...\n    async def h(self): ...\n",
    )
    assert wide_classes([base, wide, other], 2) == [(3, "muster.b.Wide")]


def test_a_class_that_is_called_as_its_base_is_counted_to_its_end() -> None:
    base = module_of("libs/muster/a.py", "class Base:\n    def f(self): ...\n")
    same = module_of("libs/muster/b.py", "from muster.a import Base as Old\nclass Base(Old):\n    def g(self): ...\n")
    assert wide_classes([base, same], 1) == [(2, "muster.b.Base")]


def test_twins_share_three_of_five_fields_and_have_at_least_so_many() -> None:
    modules = [module_of(path, text) for path, text in TWINS.items()]
    assert twins(modules, 5) == {COPY: 5}
    assert twins(modules, 6) == {}
    apart = module_of("libs/muster/c.py", "class Other:\n    a: int\n    b: int\n    c: int\n    x: int\n    y: int\n")
    assert twins([modules[0], apart], 5) == {}


def test_lines_are_counted_by_root_and_modules_in_the_product_alone() -> None:
    report = report_of({"libs/muster/a.py": "a = 1\n", "tests/unit/test_a.py": "a = 1\nb = 2\n"})
    assert report.lines == {"tests": 2, "libs": 1}
    assert (report.figures["lines of the product"], report.figures["modules"]) == (1, 1)


def test_a_figure_over_its_limit_is_a_problem() -> None:
    texts = {"libs/muster/a.py": "a = 1\n", "libs/muster/b.py": "b = 1\n"}
    assert found(texts, modules=2) == []
    assert found(texts, modules=1)[0].startswith("modules: 2, at most 1")


def test_twins_need_a_reason_and_a_reason_needs_its_twins() -> None:
    assert found(TWINS)[0].startswith("muster.a.One = muster.b.Copy: twins")
    assert found(TWINS, kept={COPY: "the wire of others"}) == []
    alone = {"libs/muster/a.py": TWINS["libs/muster/a.py"]}
    assert "no twins any more" in found(alone, kept={COPY: "the wire of others"})[0]


def test_every_figure_has_a_limit_and_is_written_with_it() -> None:
    report = report_of(TWINS)
    assert report.figures.keys() == LIMITS.keys()
    lines = list(written(report, limits=LIMITS))
    assert f"modules: 2 (at most {LIMITS['modules']})" in lines
    assert "  at least 5 fields: muster.a.One = muster.b.Copy" in lines
    assert list(written(Report({}, (), (), {}), limits=LIMITS))


def test_the_exit_code_says_whether_the_tracked_files_are_within_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster_tools.structure.TWINS_KEPT", {})
    for path, text in TWINS.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "libs"], check=True)
    assert main([str(tmp_path)]) == 0
    subprocess.run(["git", "-C", tmp_path, "add", "services"], check=True)
    assert main([str(tmp_path)]) == 1
    assert "twins" in capsys.readouterr().err
