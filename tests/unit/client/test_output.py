"""The output of a job, followed page by page."""

from dataclasses import dataclass, field

from kit.virtual_time import virtually
from muster.client.output import WAIT_S, lines_of_pages
from muster.schemas.live import OutputLine, OutputPage


@dataclass
class Gateway:
    """Answers with these pages in turn; the job has ended once so many are left."""

    pages: list[tuple[str, str]]
    """Lines, one letter each, and the cursor after them."""
    ends_at: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def page(self, after: str, wait_s: int) -> OutputPage:
        self.asked.append((after, wait_s))
        letters, end = self.pages.pop(0)
        return OutputPage(job_id="j", lines=tuple(OutputLine(at=1, text=letter) for letter in letters), end=end)

    async def has_ended(self) -> bool:
        return len(self.pages) <= self.ends_at


async def followed(gateway: Gateway) -> str:
    return "".join([line.text async for line in lines_of_pages(gateway.page, gateway.has_ended)])


def test_each_page_starts_where_the_last_one_ended() -> None:
    gateway = Gateway([("ab", "L:2"), ("c", "L:3"), ("", "L:3"), ("", "L:3")], ends_at=1)
    assert virtually(followed(gateway)) == "abc"
    assert gateway.asked == [("", 0), ("L:2", WAIT_S), ("L:3", WAIT_S), ("L:3", 0)]


def test_what_is_printed_just_before_the_end_is_not_missed() -> None:
    gateway = Gateway([("a", "L:1"), ("", "L:1"), ("b", "L:2"), ("", "L:2")], ends_at=3)
    assert virtually(followed(gateway)) == "ab"


def test_a_page_of_which_nothing_was_wanted_is_not_the_last_one() -> None:
    gateway = Gateway([("", "L:0"), ("", "L:256"), ("b", "L:300"), ("", "L:300"), ("", "L:300")], ends_at=4)
    assert virtually(followed(gateway)) == "b"


def test_a_job_without_a_cluster_is_asked_again_until_it_ends() -> None:
    gateway = Gateway([("", "")] * 4, ends_at=1)
    assert virtually(followed(gateway)) == ""
    assert gateway.asked == [("", 0)] * 4
