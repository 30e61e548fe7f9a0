"""A slice of the published trace through a stack of its own: every task is accounted for."""

import json
from collections import Counter
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.openb.account import Fate
from muster.openb.report import ReplayReport
from muster.openb.trace import NODE_FILE, TASK_FILE, WHOLE_GPU_MILLI, parse_nodes, parse_tasks

OPENB = Path(__file__).parents[4] / "shared" / "data" / "openb"
TASKS = 150
TOO_BIG = "too-big,1000,1024,9,1000,,LS,Running,60,120,60\n"  # nine GPUs: no node has them
NODES = 40
NODES_EVERY = 30  # of 1,213, so that every model is there
WALL_S = 4.0

pytestmark = [
    pytest.mark.connected,
    pytest.mark.skipif(not OPENB.is_dir(), reason="../shared/data/openb is not there: nothing to replay"),
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The trace's first tasks, 40 of its nodes, and one task more, which no node can take."""
    folder = tmp_path / "openb"
    folder.mkdir()
    header, *nodes = (OPENB / NODE_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / NODE_FILE).write_text("".join([header, *nodes[::NODES_EVERY][:NODES]]))
    header, *rows = (OPENB / TASK_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    first = {task.name for task in parse_tasks((OPENB / TASK_FILE).read_text(encoding="utf-8"))[:TASKS]}
    (folder / TASK_FILE).write_text("".join([header, *(row for row in rows if row.split(",")[0] in first), TOO_BIG]))
    return folder


def test_every_task_of_a_slice_is_accounted_for(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = parse_tasks((trace / TASK_FILE).read_text())
    speedup = max(task.deletion_s for task in tasks) / WALL_S
    out = tmp_path / "out"
    assert run(["replay", "openb", str(trace), "--speedup", str(speedup), "--out", str(out), "-o", "json"]) == 0
    report = ReplayReport.model_validate(json.loads(capsys.readouterr().out))
    assert report == ReplayReport.model_validate_json((out / "report.json").read_bytes())
    assert (report.tasks, report.finished, report.never_placed, report.unfinished) == (TASKS + 1, TASKS, 0, 0)
    assert [(left.task, left.fate) for left in report.left] == [("too-big", Fate.REFUSED)]
    assert "9 GPUs" in report.left[0].reason
    assert report.failed == sum(task.has_failed for task in tasks)
    assert (report.nodes, report.gpus) == (
        NODES,
        sum(node.gpus for node in parse_nodes((trace / NODE_FILE).read_text())),
    )
    asked = sum(task.gpu_milli_total for task in tasks) / WHOLE_GPU_MILLI
    assert 0 < report.gpus_allocated_max <= min(asked, report.gpus)
    assert 0 < report.wait_s.p50 <= report.wait_s.p99 <= report.wait_s.max < report.wall_s
    assert "cores" in report.machine
    assert Counter(path.name for path in out.iterdir()) == Counter(["report.json", "allocation.csv", "allocation.png"])
