"""`muster simulate` as a shell sees it: what it prints, what it writes, how it ends."""

import json
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.openb.trace import NODE_FILE, TASK_FILE

SCENARIO = """
nodes: [{name: n0, gpus: 8}]
queues: [{name: q}]
jobs: [{name: a, queue: q, gpus: 4}]
expect: {jobs: {a: {state: %s}}}
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,V100\nn1,64000,262144,8,V100\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
PODS += "".join(f"p{at},4000,8192,1,{600 if at % 2 else 1000},,LS,Running,{at},{at + 50},{at}\n" for at in range(12))


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    """Both lists, as options."""
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]


def write(folder: Path, text: str) -> str:
    path = folder / "scenario.yaml"
    path.write_text(text)
    return str(path)


def test_a_scenario_prints_where_everything_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "scenario", write(tmp_path, SCENARIO % "running"), "--check", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"jobs", "queues", "stable", "rounds"}
    assert told["jobs"]["a"] == {
        "state": "running", "nodes": ["n0"], "devices": [[0, 1, 2, 3]], "replicas": 1, "preempted_for": None,
        "reason": "", "detail": "",
    }  # fmt: skip
    assert set(told["queues"]["q"]) == {"held", "quota", "share", "pending", "running"}


def test_what_is_not_as_expected_is_told_when_that_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, SCENARIO % "pending")
    assert run(["simulate", "scenario", file]) == 0
    assert run(["simulate", "scenario", file, "--check"]) == 3
    assert "jobs.a.state: expected 'pending', found 'running'" in capsys.readouterr().err


@pytest.mark.parametrize("field", ["jobs", "queues"])
def test_what_is_expected_of_an_unknown_name_is_refused(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"nodes: [{{name: n0, gpus: 8}}]\nexpect: {{{field}: {{nobody: {{}}}}}}\n"
    assert run(["simulate", "scenario", write(tmp_path, text)]) == 2
    assert f"expect.{field}.nobody: the scenario has no such name among its {field}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bytes(range(256)), "is not UTF-8 at byte 128"),
        (NODES.encode() + b"n2," + b"9" * 200_000 + b",1,1,\n", "is no CSV: field larger than field limit"),
        (b"\0\0\0", "is missing; the header has"),
        (NODES.encode() + b"n2,1,1,1000000000,V100\n", "column 'gpu': 1000000000 is more than 1024"),
        (NODES.encode().splitlines()[0], "has only a header; give at least one row"),
    ],
    ids=["binary", "long field", "zeros", "GPUs", "header"],
)
@pytest.mark.parametrize("command", [("simulate", "trace", "openb"), ("replay", "openb")], ids=" ".join)
def test_a_list_that_is_no_csv_is_one_line(
    command: tuple[str, ...], content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / NODE_FILE).write_bytes(content)
    (tmp_path / TASK_FILE).write_text(PODS)
    assert run([*command, str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_file_that_cannot_be_is_a_usage_error_with_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "scenario", write(tmp_path, "nodes: [{name: n0, gpus: 8, colour: red}]")]) == 2
    assert "nodes[0].colour" in capsys.readouterr().err
    assert run(["simulate", "scenario", str(tmp_path / "nowhere.yaml")]) == 2


def test_filling_prints_what_was_allocated(trace: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    full = ["simulate", "trace", "openb", *trace, "--arrivals", "shuffled", "--until", "full", "-o", "json"]
    assert run([*full, "--seed", "5"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["seed"] == 5
    assert set(one["allocated_pct"]) == {"100", "130"}
    assert run([*full, "--seed", "5", "--seeds", "2"]) == 0
    two = json.loads(capsys.readouterr().out)
    assert [each["seed"] for each in two["runs"]] == [5, 6]
    assert two["runs"][0] == one


def test_a_trace_leaves_a_report(trace: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["simulate", "trace", "openb", *trace, "--out", str(out), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((out / "report.json").read_text())
    assert told["ended"] == {"succeeded": 12}
    assert {path.name for path in out.iterdir()} == {"report.html", "report.json", "jobs.csv"}


def test_two_policies_stand_side_by_side(trace: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "one.yaml", tmp_path / "two.yaml"
    first.write_text("name: plain\nqueues: [{name: ls}]\n")
    second.write_text("queues: [{name: ls, borrowing_limit: {gpu: 2}}]\n")
    out = tmp_path / "out"
    arguments = ["simulate", "trace", "openb", *trace, "--compare", str(first), str(second), "--out", str(out)]
    assert run([*arguments, "-o", "json"]) == 0
    plain, limited = json.loads(capsys.readouterr().out)["runs"]
    assert (plain["policy"], limited["policy"]) == ("plain", "two")
    assert limited["wait_by_queue"][0]["mean_s"] > plain["wait_by_queue"][0]["mean_s"]


@pytest.mark.parametrize(
    "more",
    [
        ["--until", "full"],
        ["--arrivals", "shuffled", "--until", "end"],
        ["--arrivals", "shuffled", "--until", "full", "--from-cluster"],
    ],
)
def test_options_that_do_not_go_together(trace: list[str], more: list[str]) -> None:
    assert run(["simulate", "trace", "openb", *trace, *more]) == 2


def test_both_lists_are_needed(tmp_path: Path) -> None:
    assert run(["simulate", "trace", "openb"]) == 2
    assert run(["simulate", "trace", "openb", str(tmp_path)]) == 2


def test_a_synthetic_day(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "synthetic", "--gpus", "80", "--jobs", "60", "--days", "0.5", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["facts"] > 300
    assert told["report"]["gpus"] == 80
