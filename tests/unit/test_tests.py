"""What tests may import of each other."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
A_TEST = re.compile(r"^\s*(?:from|import) (?:\w+\.)*test_\w+ import ", re.MULTILINE)
OF_PACKAGES = "aiohttp.test_utils"


def test_no_test_imports_a_test() -> None:
    """What two tests need is in tests/kit, or beside the tests of a folder under a name that is no test's."""
    texts = {path: path.read_text(encoding="utf-8").replace(OF_PACKAGES, "") for path in TESTS.rglob("*.py")}
    assert [str(path.relative_to(TESTS)) for path, text in texts.items() if A_TEST.search(text)] == []
