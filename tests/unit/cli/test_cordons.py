"""`muster cordon`, `drain` and `resume`, and `muster nodes --reasons`."""

import json

import pytest

from muster.cli.main import run
from muster.schemas.facts.node import RunningJobs
from muster.schemas.views import NodeReason, NodeView
from unit.cli.fake_muster import FakeMuster

BY_ADA = NodeReason(what="cordoned", by="ada", reason="smells of smoke")
BY_HEALTH = NodeReason(what="withheld", by="health", reason="xid 79", request_id="h1", running=RunningJobs.REQUEUE)
LATER = NodeReason(
    what="planned", by="upgrader", reason="driver", request_id="u1", running=RunningJobs.FINISH, from_at=1
)


@pytest.mark.parametrize("command", ["cordon", "drain", "resume"])
def test_several_nodes_are_closed_by_one_command(muster: FakeMuster, command: str) -> None:
    assert run([command, "gpu-01", "gpu-02", "--reason", "fan", "--cluster", "c"]) == 0
    assert muster.closed == [(command, "gpu-01", "fan", "c"), (command, "gpu-02", "fan", "c")]


@pytest.mark.parametrize(
    ("command", "reasons", "said"),
    [
        ("cordon", (BY_ADA,), "cordoned, 2 jobs there"),
        ("cordon", (), "cordon requested"),
        ("drain", (BY_ADA,), "drain requested"),
        ("resume", (BY_ADA,), "resume requested"),
        ("resume", (), "resumed"),
        ("resume", (BY_HEALTH, LATER), "resumed, but withheld: xid 79"),
        ("resume", (LATER,), "resumed"),
    ],
)
def test_what_came_of_it_is_told(
    muster: FakeMuster, command: str, reasons: tuple[NodeReason, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.node_rows = [NodeView(name="gpu-01", cluster="c", reasons=reasons, jobs=("a", "b"))]
    assert run([command, "gpu-01"]) == 0
    assert capsys.readouterr().out == f"gpu-01 {said}\n"


def test_a_node_that_is_not_there_is_refused(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cordon", "gpu-99"]) == 3
    assert "gpu-99" in capsys.readouterr().err


def test_reasons_are_told_a_row_each_also_those_to_come(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.node_rows += [
        NodeView(name="gpu-03", cluster="c", usable=True, reasons=(BY_HEALTH.model_copy(update={"device": "GPU-7"}),)),
        NodeView(name="gpu-04", cluster="c", usable=True, reasons=(LATER,)),
    ]
    assert run(["nodes", "--reasons"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["NODE", "WHAT", "BY", "DEVICE", "FROM", "JOBS", "THERE", "REASON"]
    assert rows[1] == ["gpu-02", "closed", "0", "xid", "79"]
    assert rows[2] == ["gpu-03", "withheld", "health", "GPU-7", "0", "requeue", "xid", "79"]
    assert rows[3][:3] == ["gpu-04", "planned", "upgrader"]
    assert run(["nodes", "--reasons", "-o", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["gpu-02", "gpu-03", "gpu-04"]
