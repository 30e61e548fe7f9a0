"""`muster bench ways` as a shell sees it."""

import json
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.openb.trace import NODE_FILE, TASK_FILE

HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    rows = [
        f"p{at},4000,8192,1,{400 if at % 2 else 1000},,LS,Running,{at * 60},{at * 60 + 600},{at * 60}"
        for at in range(20)
    ]
    (tmp_path / NODE_FILE).write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,V100\n")
    (tmp_path / TASK_FILE).write_text("\n".join((HEAD, *rows)) + "\n")
    return str(tmp_path)


def test_three_ways_stand_side_by_side_with_what_they_rest_on(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["bench", "ways", folder, "--gpus", "8", "--out", str(out), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [way["way"] for way in told["ways"]] == ["split", "nodes", "devices"]
    assert {way["jobs"] for way in told["ways"]} == {20}
    assert {"work", "time", "fleet", "power", "split", "nodes", "devices"} <= set(told["assumptions"])
    assert told["machine"]["cores"]
    assert json.loads((out / "ways.json").read_text()) == told
    assert (out / "ways.svg").read_text().startswith("<svg ")


def test_the_table_has_a_column_for_each_way(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "ways", folder, "--gpus", "8"]) == 0
    told = capsys.readouterr().out
    assert all(
        word in told for word in ("split GPUs", "scale nodes", "scale devices", "energy", "assumptions of the model")
    )


def test_a_fleet_that_is_no_whole_number_of_hosts_is_refused(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "ways", folder, "--gpus", "12"]) == 2
    assert "--gpus: 12" in capsys.readouterr().err
