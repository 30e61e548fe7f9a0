"""The quick reading of a page's lines against prometheus-client's own, on pages of every sort."""

import re
from collections.abc import Container
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from muster.telemetry.core import lines
from muster.telemetry.core.lines import PageError, samples
from muster.telemetry.core.names import MEANINGS

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "dcgm").glob("*.txt"))
Read = list[tuple[str, dict[str, str], float]]


class Everything:
    """Every legal name is wanted."""

    def __contains__(self, name: object) -> bool:
        return re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", str(name)) is not None


EVERYTHING = Everything()


def ours(text: str, wanted: Container[str] = EVERYTHING) -> Read:
    read = samples(text, wanted=wanted, entity=lambda labels: labels)
    return [(name, labels, value) for name, labels, value in read]


def by_library(text: str) -> Read:
    """The library's reading of a page without comments, in which it leaves names as they stand."""
    bare = "\n".join(line for line in text.split("\n") if not line.strip().startswith("#"))
    families = text_string_to_metric_families(bare)
    return [(one.name, dict(one.labels), one.value) for family in families for one in family.samples]


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
labels_names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True)
values_of_labels = st.text(st.one_of(st.sampled_from("abcGPU-019.:/ {}=,#_"), st.sampled_from('\\"\n')), max_size=12)
numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["9223372036854775794", "140737488355328.000000", "+Inf", "-Inf", "1e5", "0.570000", "007"]),
)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def a_line(draw: st.DrawFn) -> str:
    name, number = draw(names), draw(numbers)
    labels = draw(st.dictionaries(labels_names, values_of_labels, max_size=4))
    text = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    braces = f"{{{text}{draw(st.sampled_from(['', '', ',']))}}}" if labels else draw(st.sampled_from(["", "{}"]))
    behind = draw(st.sampled_from(["", "", "", " 1700000000000", " ", "\r"]))
    return f"{draw(st.sampled_from(['', '', ' ']))}{name}{braces} {number}{behind}"


comments = st.sampled_from(["# HELP x {what}", "# TYPE x gauge", "#", "", "   ", "# a remark"])


@given(st.lists(st.one_of(a_line(), a_line(), comments), max_size=12))
def test_what_is_read_is_what_the_library_reads(page: list[str]) -> None:
    text = "\n".join(page)
    assert ours(text) == by_library(text)


@given(a_line(), st.integers(0, 60), st.sampled_from('"{}=, \\x_'))
def test_a_damaged_line_is_read_as_the_library_reads_it_or_refused_as_it_refuses_it(
    line: str, place: int, put: str
) -> None:
    damaged = line[:place] + put + line[place:]
    try:
        expected = by_library(damaged)
    except (ValueError, IndexError):
        with pytest.raises(PageError):
            ours(damaged)
    else:
        assert ours(damaged) == [one for one in expected if one[0] in EVERYTHING]  # it lets illegal names pass


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_pages_of_every_exporter_are_read_as_the_library_reads_them(path: Path) -> None:
    text = path.read_text()
    assert str(ours(text)) == str(by_library(text))  # as text: NaN is not itself


def test_only_what_is_wanted_is_read_and_its_types_tell_shares_from_whole_numbers() -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{UUID="a"} 57\nnobody_asks{UUID="a"} x\nDCGM_FI_PROF_SM_ACTIVE{UUID="a"} 0.500000\n'
    read = ours(text, MEANINGS)
    assert [(name, type(value)) for name, _, value in read] == [
        ("DCGM_FI_DEV_GPU_UTIL", int),
        ("DCGM_FI_PROF_SM_ACTIVE", float),
    ]


def test_the_labels_of_many_lines_are_taken_apart_once() -> None:
    text = "".join(f'DCGM_FI_DEV_{name}{{gpu="0",UUID="a"}} 1\n' for name in ("GPU_UTIL", "GPU_TEMP", "FB_USED"))
    asked: list[dict[str, str]] = []

    def entity(labels: dict[str, str]) -> int:
        asked.append(labels)
        return len(asked)

    assert [number for _, number, _ in samples(text, wanted=MEANINGS, entity=entity)] == [1, 1, 1]


@pytest.mark.parametrize("line", ['DCGM_FI_DEV_GPU_UTIL{UUID="a"} many', 'DCGM_FI_DEV_GPU_UTIL{UUID="a', "<html>"])
def test_what_is_no_page_is_said_with_its_line(line: str) -> None:
    with pytest.raises(PageError, match="line 2 is no sample"):
        ours(f'DCGM_FI_DEV_GPU_UTIL{{UUID="a"}} 1\n{line}\n', MEANINGS)


def test_a_page_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINES_MAX", 3)
    with pytest.raises(PageError, match="has 4 lines"):
        ours("\n\n\n")
