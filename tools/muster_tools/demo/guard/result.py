"""Result of a demonstration: figures before and after, and the guard's advice."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import JsonValue

HEADINGS = ("MEASURED", "BEFORE", "AFTER", "")
NUMBERS = frozenset({"BEFORE", "AFTER"})


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure. name: identifier with the unit last, for JSON. words: text for the table."""

    name: str
    words: str
    before: float
    after: float

    @property
    def change(self) -> str:
        """Return the change in percent; "" for small values."""
        if self.before < 1 or self.before == self.after:
            return ""
        return f"{(self.after - self.before) / self.before * 100:+.0f} %"


@dataclass(frozen=True, slots=True)
class Story:
    """One demonstrated hazard. before, after: descriptions. advice, advice_after: the guard's advice in each case."""

    name: str
    title: str
    before: str
    after: str
    measures: tuple[Measure, ...]
    advice: str = ""
    advice_after: str = ""
    conclusion: str = field(default="")


def rows(story: Story) -> Iterable[tuple[str, ...]]:
    """Yield one row per figure."""
    for one in story.measures:
        yield one.words, _number(one.before), _number(one.after), one.change


def as_json(story: Story) -> dict[str, JsonValue]:
    """Return the result as JSON, with a stable shape."""
    return {
        "story": story.name,
        "title": story.title,
        "before": {"what": story.before, "advice": story.advice, **{one.name: one.before for one in story.measures}},
        "after": {"what": story.after, "advice": story.advice_after, **{one.name: one.after for one in story.measures}},
        "conclusion": story.conclusion,
    }


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
