"""`muster guard demo`: its stories, and what is printed of one."""

import pytest

from muster.cli.errors import CliError
from muster.cli.options import Output
from muster_tools.demo.guard.result import Measure, Story, as_json, rows
from muster_tools.demo.guard.run import stories, tell


def test_a_story_has_its_figures_before_and_after_with_the_change() -> None:
    story = Story("limits", "t", "no limit", "two", (Measure("peak_mib", "peak, MiB", 2_000, 500),), advice="much")
    assert list(rows(story)) == [("peak, MiB", "2000", "500", "-75 %")]
    told = as_json(story)
    assert (told["before"], told["after"]) == (
        {"what": "no limit", "advice": "much", "peak_mib": 2_000},
        {"what": "two", "advice": "", "peak_mib": 500},
    )


def test_every_danger_has_a_story_and_an_unknown_one_is_refused() -> None:
    assert list(stories("1.32")) == ["lists", "skew", "memory", "secrets", "limits"]
    with pytest.raises(CliError, match="'weather' is not a story"):
        tell(["weather"], Output.TABLE, emulated_version="1.32")
