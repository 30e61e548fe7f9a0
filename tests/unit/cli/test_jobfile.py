"""Job files: what is read, and how a bad one is told."""

from pathlib import Path

import pytest

from muster.cli.errors import CliError, ExitCode
from muster.cli.jobfile import load_jobs

GOOD = """
name: train
team: research
task_groups: [{gpus: 8}]
"""


def written(folder: Path, text: str, name: str = "job.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def told(path: Path) -> str:
    with pytest.raises(CliError) as error:
        load_jobs(path)
    assert error.value.code is ExitCode.USAGE
    assert str(path) in str(error.value)
    return str(error.value)


def test_one_document_is_one_job(tmp_path: Path) -> None:
    (job,) = load_jobs(written(tmp_path, GOOD))
    assert job.name == "train"
    assert job.task_groups[0].gpus == 8


def test_many_documents_and_lists_are_many_jobs_in_order(tmp_path: Path) -> None:
    text = "---\n".join([GOOD, "[{name: a, team: t, task_groups: [{}]}, {name: b, team: t, task_groups: [{}]}]"])
    assert [job.name for job in load_jobs(written(tmp_path, text))] == ["train", "a", "b"]


def test_json_is_read_as_well(tmp_path: Path) -> None:
    text = '{"name": "train", "team": "research", "task_groups": [{"gpus": 1}]}'
    assert load_jobs(written(tmp_path, text, "job.json"))[0].team == "research"


def test_an_alias_used_twice_is_not_a_cycle(tmp_path: Path) -> None:
    text = "name: a\nteam: t\ntask_groups:\n- &g {name: one, gpus: 1}\n- {<<: *g, name: two}\nlabels: {}\n"
    assert [group.gpus for group in load_jobs(written(tmp_path, text))[0].task_groups] == [1, 1]


def test_a_cyclic_alias_is_told_with_its_field(tmp_path: Path) -> None:
    assert "labels.self: refers to itself" in told(written(tmp_path, GOOD + "labels: &loop {self: *loop}\n"))


def test_nested_aliases_that_stand_for_millions_of_values_end_early(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "aliases stand for more than" in told(written(tmp_path, "\n".join(lines)))


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    assert "team: is missing; add it" in told(written(tmp_path, "name: a\ntask_groups: [{}]\n"))


def test_a_wrong_type_is_named_with_its_place_in_the_document(tmp_path: Path) -> None:
    message = told(written(tmp_path, GOOD + "---\nname: a\nteam: t\ntask_groups: [{gpus: many}]\n"))
    assert "document 2: task_groups.0.gpus:" in message


def test_a_field_nobody_knows_is_told_instead_of_ignored(tmp_path: Path) -> None:
    assert "gpu_count: is no field" in told(written(tmp_path, GOOD + "gpu_count: 1\n"))


def test_zero_replicas_are_told(tmp_path: Path) -> None:
    assert "task_groups.0.replicas" in told(written(tmp_path, "name: a\nteam: t\ntask_groups: [{replicas: 0}]"))


@pytest.mark.parametrize(
    "text",
    ["", "--- \n---\n", "just words", "name: [", "name: 2026-01-01\n", "name: 2026-02-31\n", "1: a\n", "- - a\n"],
)
def test_what_is_no_job_is_told_with_the_file(tmp_path: Path, text: str) -> None:
    assert told(written(tmp_path, text))


def test_a_number_of_thousands_of_digits_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in told(written(tmp_path, GOOD + "priority: " + "9" * 5000))


def test_a_wrong_item_does_not_make_its_list_too_short_as_well(tmp_path: Path) -> None:
    assert told(written(tmp_path, "name: a\nteam: t\ntask_groups: [{gpus: yes}]\n")).count("task_groups") == 1
    assert "at least 1 item" in told(written(tmp_path, "name: a\nteam: t\ntask_groups: []\n"))


def test_what_is_no_name_is_told_with_what_is_one(tmp_path: Path) -> None:
    assert "name: is no name; use" in told(written(tmp_path, "name: My Job\nteam: t\ntask_groups: [{}]\n"))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in told(tmp_path / "none.yaml")


def test_a_file_of_many_megabytes_is_not_read(tmp_path: Path) -> None:
    assert "is larger than" in told(written(tmp_path, "#" * 2_000_000))


def test_deep_nesting_is_told(tmp_path: Path) -> None:
    assert "deep" in told(written(tmp_path, "name: " + "[" * 200 + "]" * 200))


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [("name: a\nteam: t\nname: b\n", "name", 3), ("name: a\nlabels: {x: '1', x: '2'}\n", "x", 2)],
)
def test_a_key_that_is_written_twice_is_told_with_its_line(tmp_path: Path, text: str, key: str, line: int) -> None:
    message = told(written(tmp_path, text))
    assert f"{key!r} is written twice" in message
    assert f"line {line}" in message


def test_what_a_merge_key_brings_may_be_overridden(tmp_path: Path) -> None:
    text = """
name: a
team: t
labels: {<<: [{x: '1'}], x: '2'}
task_groups:
- {name: one, topology: &near {<<: &far {level: rack, required: true}, level: node}}
- {name: two, topology: {<<: *near, required: false}}
"""
    (job,) = load_jobs(written(tmp_path, text))
    assert [group.topology.level for group in job.task_groups if group.topology] == ["node", "node"]
    assert job.labels == {"x": "2"}
