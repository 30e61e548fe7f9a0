"""Reading the trace: by header, and what is wrong is found."""

from pathlib import Path

import pytest

from muster.openb.trace import (
    NODE_FILE,
    TASK_FILE,
    OpenbFormatError,
    OpenbNode,
    OpenbTask,
    job_spec,
    parse_nodes,
    parse_tasks,
)
from muster.schemas.labels import EXIT_CODE, RUN_S

DATA = Path(__file__).parents[4] / "shared" / "data" / "openb"

TASKS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
whole,12000,16384,2,1000,,LS,Running,10,110,30
share,6000,12288,1,460,T4|P100,LS,Failed,5,105,5
cpu,6000,12288,0,0,,BE,Pending,7,17,
"""


def one(**changed: str) -> OpenbTask:
    """The first task of TASKS with other cells."""
    header, row = TASKS.splitlines()[:2]
    cells = dict(zip(header.split(","), row.split(","), strict=True)) | changed
    (read,) = parse_tasks(f"{header}\n{','.join(cells.values())}\n", file="pods.csv")
    return read


def test_nodes_are_read_by_header_whatever_the_order() -> None:
    text = "model,gpu,extra,memory_mib,sn,cpu_milli\nP100,2,x,262144,n-1,64000\n,0,,1024,n-2,1000\n"
    assert parse_nodes(text) == (OpenbNode("n-1", 64_000, 262_144, 2, "P100"), OpenbNode("n-2", 1000, 1024, 0, ""))


def test_tasks_come_earliest_first() -> None:
    assert [task.name for task in parse_tasks(TASKS)] == ["share", "cpu", "whole"]


def test_a_task_asks_whole_gpus_or_a_share_or_none() -> None:
    asked = {task.name: (task.gpus, task.gpu_milli, task.gpu_models) for task in parse_tasks(TASKS)}
    assert asked == {"whole": (2, 0, ()), "share": (0, 460, ("T4", "P100")), "cpu": (0, 0, ())}


def test_a_lifetime_begins_with_placement_if_there_was_one() -> None:
    lifetimes = {task.name: task.lifetime_s for task in parse_tasks(TASKS)}
    assert lifetimes == {"whole": 80.0, "share": 100.0, "cpu": 10.0}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("cpu_milli", "many", "'many' is not a whole number"),
        ("memory_mib", "-1", "-1 is less than 0"),
        ("num_gpu", "", "'' is not a whole number"),
        ("num_gpu", "1.5", "'1.5' is not a whole number"),
        ("gpu_milli", "1001", "1001 is not a share"),
        ("creation_time", "early", "'early' is not a number of seconds"),
        ("creation_time", "nan", "nan is not a moment"),
        ("scheduled_time", "-5", "-5 is not a moment"),
        ("deletion_time", "9", "9 s lies before the creation at 10 s"),
        ("name", "", "is empty"),
    ],
)
def test_a_wrong_cell_is_named_by_file_line_and_column(column: str, value: str, reason: str) -> None:
    with pytest.raises(OpenbFormatError, match=reason) as caught:
        one(**{column: value})
    assert (caught.value.file, caught.value.line, caught.value.column) == ("pods.csv", 2, column)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(OpenbFormatError, match="is missing") as caught:
        parse_nodes("sn,cpu_milli,memory_mib,gpu\n", file="nodes.csv")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("nodes.csv", 1, "model")


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_is_no_table(text: str) -> None:
    with pytest.raises(OpenbFormatError, match="is missing"):
        parse_tasks(text)


def test_a_short_line_is_found() -> None:
    with pytest.raises(OpenbFormatError) as caught:
        parse_nodes("sn,cpu_milli,memory_mib,gpu,model\nn-1,1000\n")
    assert (caught.value.line, caught.value.column) == (2, "memory_mib")


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(OpenbFormatError, match="stands already on line 2") as caught:
        parse_nodes("sn,cpu_milli,memory_mib,gpu,model\nn-1,1,1,0,\nn-2,1,1,0,\nn-1,1,1,0,\n")
    assert caught.value.line == 4


def test_a_job_runs_as_long_as_its_task_sped_up() -> None:
    share, cpu, whole = (job_spec(task, speedup=10.0, team="openb") for task in parse_tasks(TASKS))
    assert (float(share.labels[RUN_S]), share.labels[EXIT_CODE]) == (10.0, "1")
    assert (float(whole.labels[RUN_S]), whole.labels[EXIT_CODE]) == (8.0, "0")
    assert (share.task_groups[0].gpu_milli, share.task_groups[0].gpu_models) == (460, ("T4", "P100"))
    assert (whole.task_groups[0].gpus, cpu.gpu_milli_total) == (2, 0)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the openb trace is not at {DATA}")
def test_the_published_trace_is_read_whole() -> None:
    nodes = parse_nodes((DATA / NODE_FILE).read_text(), file=NODE_FILE)
    tasks = parse_tasks((DATA / TASK_FILE).read_text(), file=TASK_FILE)
    assert (len(nodes), sum(node.gpus for node in nodes)) == (1213, 6212)
    assert len(tasks) == 8152
    assert sum(not task.gpu_milli_total for task in tasks) == 1088
    assert sum(bool(task.gpu_milli) for task in tasks) == 3078
    assert {job_spec(task, speedup=1e5, team="openb").name for task in tasks} == {task.name for task in tasks}
