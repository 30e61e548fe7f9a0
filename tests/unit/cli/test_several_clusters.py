"""Several clusters: tables name that of a row, and commands ask the one that is named."""

from pathlib import Path

import pytest

from muster.cli import log_files, tables
from muster.cli.errors import CliError
from muster.cli.main import run
from muster.schemas.devices import AttachmentPhase, ComposabilitySpec, DeviceView, RequestPhase, RequestView
from muster.schemas.queries import ScaleChoiceView
from muster.schemas.views import NodeView
from muster.stack.options import StartOptions, asked_settings
from muster.stack.state_dir import StateDir
from unit.cli.fake_muster import FakeMuster

HEADINGS = ("NODE", "GPUS")


def node(name: str, cluster: str) -> NodeView:
    return NodeView(name=name, cluster=cluster)


def test_one_cluster_needs_no_name() -> None:
    nodes = [node("a", "east"), node("b", "east")]
    headings, rows = tables.by_cluster(HEADINGS, [("a", "8"), ("b", "8")], nodes)
    assert headings == HEADINGS
    assert list(rows) == [("a", "8"), ("b", "8")]


def test_of_several_each_row_names_its_own_and_what_has_none_says_so() -> None:
    nodes = [node("a", "east"), node("b", "west"), node("c", "")]
    headings, rows = tables.by_cluster(HEADINGS, [("a", "8"), ("b", "8"), ("c", "8")], nodes)
    assert headings == ("CLUSTER", *HEADINGS)
    assert [row[0] for row in rows] == ["east", "west", "-"]


@pytest.mark.parametrize(
    "command",
    [
        "device list",
        "device fabrics",
        "device requests",
        "device requests r1",
        "device attach --model H100 --count 1",
        "device detach GPU-1",
        "device detach --request r1",
        "scale",
        "scale s1",
        "guard report",
    ],
)
def test_the_cluster_that_is_named_is_asked_else_the_gateways_first(muster: FakeMuster, command: str) -> None:
    spec = ComposabilitySpec(model="H100", size=1)
    muster.request_rows = [RequestView(name="r1", cluster="west", spec=spec, phase=RequestPhase.RUNNING)]
    phase = AttachmentPhase.ONLINE
    muster.device_rows = [DeviceView(id="a1", model="H100", node="n", fabric="f", device_uuid="GPU-1", phase=phase)]
    muster.choices = [ScaleChoiceView(id="s1", name="gpu-attach-chosen", case=1)]
    for named, asked in (([], ""), (["--cluster", "west"], "west")):
        muster.clusters_asked.clear()
        assert run([*command.split(), *named]) == 0
        assert muster.clusters_asked[0] == asked


def test_a_centre_trims_no_copy_by_hand_and_says_where_the_log_is(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path, clusters=("east", "west"))
    state = StateDir(tmp_path)
    state.prepare()
    state.settings.write_text(asked_settings(options).model_dump_json())
    with pytest.raises(CliError, match=r"copy.*cell west.*--log fed"):
        log_files.trim(tmp_path, "west", archive=tmp_path / "new.gz", yes=True)
