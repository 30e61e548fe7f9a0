"""Pages that are read by the plan of the page before say what they say when they are read whole."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.telemetry.core import lines, plans
from muster.telemetry.core.lines import PageError
from muster.telemetry.core.names import MEANINGS
from muster.telemetry.core.pages import Draft, Page, read_page
from muster.telemetry.core.plans import Kind, Pages, Parts, learn

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "dcgm").glob("*.txt"))
GPU = 'gpu="0",UUID="GPU-a"'
TEMP, POWER = (f"DCGM_FI_DEV_{name}{{{GPU}}}" for name in ("GPU_TEMP", "POWER_USAGE"))
VALUE = re.compile(r"(?<=\} )[0-9.]+$", re.MULTILINE)
VALUES = (
    "0", "1", "7", "57", "0.000000", "0.570000", "612.670000", "2147483632", "2147483648", "9223372036854775794",
    "140737488355328.000000", "99999999999999999999", "007", "5.", ".5", "1.2.3",
)  # fmt: skip


class Learnt:
    """Counts pages that were learnt, and those that were read whole."""

    def __init__(self) -> None:
        self.pages = self.whole = 0

    def learn(self, kind: Kind, labels: Sequence[str]) -> tuple[Draft, Parts] | None:
        self.pages += 1
        return learn(kind, labels)

    def read(self, text: str) -> Page:
        self.whole += 1
        return read_page(text)


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> Learnt:
    counted = Learnt()
    monkeypatch.setattr(plans, "learn", counted.learn)
    monkeypatch.setattr(plans, "read_page", counted.read)
    return counted


def said(text: str, read: Pages | None = None) -> str:
    """As text, so that 1 is not 1.0."""
    try:
        page = read_page(text) if read is None else read.read("n1", text)
    except PageError as error:
        return str(error)
    return str(page)


def with_other_values(text: str, draw: random.Random, values: tuple[str, ...]) -> str:
    return VALUE.sub(lambda _: draw.choice(values), text)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_pages_of_every_exporter_say_by_the_plan_what_they_say_whole(path: Path) -> None:
    text, read, draw = path.read_text(), Pages(), random.Random(1)
    assert said(text, read) == said(text)
    for _ in range(20):
        changed = with_other_values(text, draw, VALUES[:11])
        assert said(changed, read) == said(changed)


PLAIN = [path for path in FIXTURES if path.stem not in ("blanks", "no-gpus")]


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_a_page_is_learnt_once_and_none_is_read_whole_while_nothing_but_values_changes(
    path: Path, learnt: Learnt
) -> None:
    text, read, draw = path.read_text(), Pages(), random.Random(2)
    for _ in range(10):
        read.read("n1", with_other_values(text, draw, VALUES[:7]))
    assert (learnt.pages, learnt.whole) == (1, 0)


def test_names_need_no_comments_between_them(learnt: Learnt) -> None:
    (gpu,) = Pages().read("n1", f"{TEMP} 40\n{POWER} 100.5\n").gpus
    assert (gpu.shown.temperature_c, gpu.shown.power_w) == (40, 100.5)
    assert learnt.whole == 0


def test_another_label_gives_another_plan(learnt: Learnt) -> None:
    read = Pages()
    page = f'DCGM_FI_DEV_GPU_UTIL{{{GPU},hpc_job="%s"}} 5\n'
    jobs = [read.read("n1", page % job).gpus[0].jobs for job in ("A", "A", "B", "B")]
    assert jobs == [("A",), ("A",), ("B",), ("B",)]
    assert (learnt.pages, learnt.whole) == (1, 0), "the series belong together as before"


def test_pages_are_learned_anew_when_series_belong_together_in_another_way(learnt: Learnt) -> None:
    read = Pages()
    page = "".join(f'DCGM_FI_DEV_{name}{{UUID="%s",GPU_I_ID="%s"}} 5\n' for name in ("GPU_TEMP", "POWER_USAGE"))
    for owners in (
        ("a", "", "a", ""),
        ("b", "", "b", ""),
        ("a", "", "b", ""),
        ("a", "1", "a", "2"),
        ("a", "1", "b", "1"),
    ):
        assert said(page % owners, read) == said(page % owners)
    assert (learnt.pages, learnt.whole) == (4, 0)


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_a_page_is_not_learned_again_when_other_pods_use_the_gpus(path: Path, learnt: Learnt) -> None:
    text, read = path.read_text(), Pages()
    for pod in ("a", "b", "c"):
        changed = re.sub(r'(?<=[,{]pod=")[^"]+', rf"{pod}-\g<0>", text)
        assert said(changed, read) == said(changed)
    assert learnt.pages == 1


def test_a_label_that_appears_twice_makes_no_page(learnt: Learnt) -> None:
    """The labels of the GPU alone are valid; together with those of the error code they are not."""
    read = Pages()
    page = f'{TEMP[:-1]}%s}} 40\nDCGM_EXP_XID_ERRORS_COUNT{{{GPU}%s,xid="79"}} 1\n'
    for more in ("", ',xid="1"'):
        assert said(page % (more, more), read) == said(page % (more, more))


def test_a_count_that_appears_is_seen_at_once() -> None:
    read = Pages()
    power = f"{POWER} 100.5\n"
    xid = f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},window_size_in_ms="300000",xid="79"}} 1\n'
    found = [read.read("n1", text).gpus[0].xid_counts for text in (power, power, power + xid, power)]
    assert found == [(), (), ((79, 1),), ()]


@pytest.mark.parametrize(
    "labels",
    [
        'gpu="0",UUID="{gpu}",{about},pod="p-{gpu}",namespace="n"',
        'gpu="0",UUID="{gpu}",pod="p-{gpu}",namespace="n",{about}',
        '{about},gpu="0",UUID="{gpu}",pod="p-{gpu}",namespace="n"',
        'gpu="0",UUID="{gpu}",health_watch="",{about},pod="p-{gpu}",namespace="n"',
        'gpu="0",UUID="{gpu}",pod="p-{gpu}",namespace="\\",{about}',
        'gpu="0",UUID="{gpu}",pod="{about},namespace="n"',
    ],
)
def test_what_a_series_is_about_may_stand_anywhere_among_its_labels(labels: str) -> None:
    plain = 'gpu="0",UUID="{gpu}",pod="p-{gpu}",namespace="n"'
    about = ('health_error_code="",health_watch="MEM"', 'health_error_code="A",health_watch="PCIE"')
    read = Pages()
    for gpu in ("a", "b"):
        lines = [f"DCGM_FI_DEV_GPU_TEMP{{{plain.format(gpu=gpu)}}} 40"]
        lines += [f"DCGM_EXP_GPU_HEALTH_STATUS{{{labels.format(gpu=gpu, about=what)}}} 10" for what in about]
        text = "\n".join([*lines, ""])
        assert said(text, read) == said(text)


def test_what_a_plan_reads_of_two_nodes_is_each_ones_own(learnt: Learnt) -> None:
    read = Pages()
    page = 'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="{0}",modelName="H100"}} {1}\n'
    for node, degrees in (("n1", 40), ("n2", 50), ("n1", 41), ("n2", 51)):
        (gpu,) = read.read(node, page.format(f"GPU-{node}", degrees)).gpus
        assert (gpu.uuid, gpu.shown.temperature_c) == (f"GPU-{node}", degrees)
    assert learnt.pages == 1


def test_nodes_that_are_gone_are_forgotten() -> None:
    read = Pages()
    for node in ("n1", "n2"):
        read.read(node, f"{TEMP} 40\n")
    read.keep({"n2"})
    assert read.nodes == {"n2"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x{a="1"} 5\ny{b="2"} 6\n', '} 5\nx{a="1"y{b="2"} 6\n'),  # the same rest, cut elsewhere
        (f"{TEMP} 40\n{POWER} 100.5\n", f"{TEMP[:-1]}\x00{POWER} 100.5\n"),
        (f'other{{a="1"}} 5\nother{{a="1"}} -5\n{TEMP} 40\n', f'other{{a="1"}} 5\nother{{a="1"}} -5\n{TEMP} 41\n'),
        (f"# a\x00{TEMP} 40\n", f"# a}} 5\n{TEMP[:-1]}\x00"),
        (f"{TEMP} -5\n{POWER} 100.5\n", f"{TEMP} -6\n{POWER} 100.5\n"),
        (f'{TEMP[:-1]},hpc_job="c\\"d"}} 40\n', f'{TEMP[:-1]},hpc_job="c\\"d"}} 41\n'),
        (f"{TEMP} 40\n", f'x{{a="{TEMP} 41\n'),
        (f"{TEMP} 40\n", f"{TEMP} \n"),
        (f"{TEMP} 40\n", f"{TEMP} 1 2\n"),
        (f"{TEMP} 40\n", f"{TEMP} 5.\n"),
        (f"{TEMP} 40\n", f"{TEMP} 1.2.3\n"),
        (f"{TEMP} 40\n", f"{TEMP} 40"),
    ],
)
def test_a_page_that_only_looks_like_the_one_before_is_read_whole(before: str, after: str) -> None:
    read = Pages()
    for text in (before, before, after, before):
        assert said(text, read) == said(text)


def test_a_page_with_too_many_lines_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lines, plans):
        monkeypatch.setattr(module, "LINES_MAX", 3)
    read = Pages()
    assert read.read("n1", f"{TEMP} 40\n{POWER} 100.5\n").gpus
    with pytest.raises(PageError, match="has 4 lines"):
        read.read("n1", f"{TEMP} 40\n{POWER} 100.5\n\n")


names = st.sampled_from([*sorted(MEANINGS)[::4], "DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_XID_ERRORS_COUNT", "other"])
labels = st.dictionaries(
    st.sampled_from(["gpu", "UUID", "GPU_I_ID", "xid", "health_watch", "health_error_code", "clock_event", "hpc_job"]),
    st.sampled_from(["", "0", "1", "MEM", "a} 5", "a{b", "a,b", 'c\\"d', "\x00"]),
    max_size=5,
)
values = st.sampled_from([*VALUES, "-1", "-5.0", "NaN", "+Inf", "1e5", "1 1700000000000", ""])
comments = st.sampled_from(["# HELP x y", "# z} 5", "", "lonely 5"])


@st.composite
def rests(draw: st.DrawFn) -> list[str]:
    """Lines, with %s for their values."""
    found = []
    for name, said_of in draw(st.lists(st.tuples(names, labels), max_size=8)):
        text = ",".join(f'{label}="{value}"' for label, value in said_of.items())
        found.append(f"{name}{{{text}}} %s")
        if draw(st.integers(0, 5)) == 0:
            found.append(draw(comments))
    return found


@given(rests(), st.data())
def test_whatever_a_page_says_after_another_is_what_it_says_alone(lines: list[str], data: st.DataObject) -> None:
    read = Pages()
    usual = st.sampled_from(VALUES[:11]) if data.draw(st.booleans()) else values
    for _ in range(3):
        shown = [line.replace("%s", data.draw(usual)) for line in lines]
        text = "\n".join(shown) + data.draw(st.sampled_from(["\n", "\n", ""]))
        assert said(text, read) == said(text)
