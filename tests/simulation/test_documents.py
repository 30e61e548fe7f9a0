"""What the documents show comes out as they say: every scenario in them is played."""

import re
from pathlib import Path

import pytest

from muster.simulator.scenario import differences, parse, simulate

DOCUMENTS = Path(__file__).parents[2] / "docs" / "concepts"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)

SCENARIOS = [
    pytest.param(block, id=f"{path.stem}-{number}")
    for path in sorted(DOCUMENTS.glob("*.md"))
    for number, block in enumerate(BLOCK.findall(path.read_text()), start=1)
    if re.search("^nodes:", block, re.MULTILINE) and re.search("^expect:", block, re.MULTILINE)
]


@pytest.mark.parametrize("text", SCENARIOS)
def test_worked_example(text: str) -> None:
    scenario = parse(text)
    assert differences(scenario.expect, simulate(scenario)) == ()


def test_the_policy_is_shown_by_examples() -> None:
    assert len(SCENARIOS) >= 2
