"""Commands of the tools: they are there in a clone; elsewhere they say where they are. The wheel has none of them."""

import sys
from pathlib import Path
from subprocess import CompletedProcess
from subprocess import run as run_process

import pytest
from hatchling.builders.wheel import WheelBuilder

from muster.cli.tools import PACKAGE

ROOT = Path(__file__).parents[3]
WITHOUT_TOOLS = f"""
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.remove(str(Path(find_spec({PACKAGE!r}).origin).parents[1]))
from muster.cli.main import run

sys.exit(run(sys.argv[1:]))
"""


def without_tools(*words: str) -> CompletedProcess[str]:
    """Run `muster` in a process that cannot import the tools."""
    argv = [sys.executable, "-c", WITHOUT_TOOLS, *words]
    return run_process(argv, check=False, timeout=60, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("bench", "muster bench"),
        ("bench surge --nodes 8", "muster bench"),
        ("bench --help", "muster bench"),
        ("demo devices", "muster demo"),
        ("guard demo --story lists", "muster guard demo"),
    ],
)
def test_where_the_tools_are_not_installed_their_commands_name_the_clone(words: str, named: str) -> None:
    ended = without_tools(*words.split())
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"muster: {named}: ")
    assert "clone of the repository" in line


def test_where_the_tools_are_not_installed_the_other_commands_work() -> None:
    ended = without_tools("guard", "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "report" in ended.stdout


def test_tools_that_lack_something_are_not_taken_for_absent(tmp_path: Path) -> None:
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "commands.py").write_text("import no_such_package\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import muster.cli.main"
    ended = run_process([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60, capture_output=True)
    assert b"No module named 'no_such_package'" in ended.stderr


def test_the_wheel_holds_the_product_alone() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {Path(path).parts[0] for path in packed} == {"muster"}
    assert "muster/cli/tools.py" in packed
