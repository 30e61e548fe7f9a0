"""What `muster replay openb` refuses before it starts anything."""

from pathlib import Path

import pytest

from muster.cli.main import run
from muster.openb.trace import NODE_FILE, TASK_FILE
from muster.stack import control

TASKS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\na,1000,1024,1,1000,0,{}\n"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace of one task, and no stack to run it on."""
    monkeypatch.delattr(control, "detach")
    (tmp_path / NODE_FILE).write_text("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,8,T4\n")
    (tmp_path / TASK_FILE).write_text(TASKS.format(60))
    return tmp_path


def test_a_folder_that_cannot_be_written_is_refused_before_the_replay(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "openb", str(trace), "--out", str(trace / NODE_FILE / "report")]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_table_that_is_wrong_is_refused_with_its_place(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace / TASK_FILE).write_text(TASKS.format("soon"))
    assert run(["replay", "openb", str(trace), "--out", str(trace / "report")]) == 2
    assert f"{TASK_FILE}, line 2, column 'deletion_time'" in capsys.readouterr().err


def test_a_missing_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "openb", str(tmp_path), "--out", str(tmp_path / "report")]) == 2
    assert NODE_FILE in capsys.readouterr().err
