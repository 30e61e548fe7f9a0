"""Every example scenario comes out as it says, is stable, and leaves nothing that a fresh start would decide."""

from pathlib import Path

import pytest

from muster.simulator.scenario import differences, parse, simulate

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    scenario = parse(path.read_text())
    assert scenario.expect.jobs or scenario.expect.queues, "an example says what should come out"
    assert differences(scenario.expect, simulate(scenario)) == ()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
