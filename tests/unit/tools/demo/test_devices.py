"""The demonstrations' own judgement: what must come in which order, and what is shown of it."""

from pathlib import Path

import pytest

from muster.core import NS_PER_S, Instant
from muster.scaler.config import config_of
from muster.schemas.views import FactView
from muster.stack.options import StartOptions, asked_settings
from muster_tools.demo.devices import fact_line, is_shown
from muster_tools.demo.settings import demo_settings
from muster_tools.demo.stage import DemoFailedError, trace_id
from muster_tools.demo.stories import require_order


def fact(kind: str, name: str, body: str = "{}") -> FactView:
    return FactView(
        id="f", seq=1, time=Instant(7 * NS_PER_S), stream="LOG_local", cluster="local", writer="scaler", kind=kind,
        subject_id="s000001", name=name, body=body,
    )  # fmt: skip


def test_what_comes_in_another_order_fails_with_what_is_missing() -> None:
    require_order(["a", "x", "b", "c"], ("a", "b", "c"))
    with pytest.raises(DemoFailedError, match="no `b`"):
        require_order(["b", "a", "c"], ("a", "b", "c"))


def test_a_trace_is_known_by_its_id() -> None:
    assert trace_id("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") == "0af7651916cd43dd8448eb211c80319c"
    assert trace_id("") == ""


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("scale", "gpu-attach-chosen", True),
        ("attachment", "attaching", True),
        ("scale", "state-recorded", False),
        ("job", "placed", True),
        ("job", "pods-started", False),
        ("node", "joined", True),
        ("queue", "changed", False),
    ],
)
def test_facts_of_scaling_and_of_a_jobs_way_are_shown(kind: str, name: str, shown: bool) -> None:
    assert is_shown(fact(kind, name)) is shown


def test_a_line_says_when_who_what_of_whom_and_why() -> None:
    line = fact_line(
        fact("scale", "gpu-attach-chosen", '{"reason": "a GPU short", "node": "n"}'), Instant(5 * NS_PER_S)
    )
    assert line.split() == ["2.00", "s", "scaler", "gpu-attach-chosen", "s000001", "a", "GPU", "short"]


def test_the_demonstrations_settings_contradict_nothing(tmp_path: Path) -> None:
    settings = asked_settings(StartOptions(state_dir=tmp_path, settings=demo_settings()))
    scaling = config_of(settings.scaling, settings.fabrics).settings
    assert scaling.node_unneeded_s < scaling.gpu_idle_s, (
        "a node that cannot go is found before its GPU is idle too long"
    )
