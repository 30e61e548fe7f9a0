"""The threat model names the test of each claim: the test is there, and every attack file is named."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/concepts/threat-model.md"
ATTACKS = ROOT / "tests/security"


def named_tests(page: str) -> list[tuple[Path, str]]:
    """Return file and test of every name in the last column of the attackers' tables."""
    found: list[tuple[Path, str]] = []
    attackers = page[page.index("## Hostile cell") :]
    for row in re.findall(r"^\| .* \| (`.*) \|$", attackers, re.MULTILINE):
        file = Path()
        for name in re.findall(r"`([^`]+)`", row):
            head, separator, test = name.rpartition("::")
            if name.endswith((".py", ".ts")):
                found.append((ROOT / name, ""))
                continue
            if separator:
                file = ROOT / head if head.endswith(".py") else ATTACKS / f"test_{head}.py"
            found.append((file, f"test_{test.removeprefix('test_')}"))
    return found


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = named_tests(PAGE.read_text())
    assert len(named) > 50, "the tables are read"
    missing = [
        f"{file.name}::{test}"
        for file, test in named
        if not file.is_file() or (test and f"def {test}(" not in file.read_text())
    ]
    assert missing == []


def test_every_attack_file_is_named_by_the_threat_model() -> None:
    named = {file for file, _ in named_tests(PAGE.read_text())}
    assert sorted(path.name for path in ATTACKS.glob("test_*.py") if path not in named) == []
