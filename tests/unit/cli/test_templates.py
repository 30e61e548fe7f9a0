"""`muster template` and `muster submit --template`."""

import json
import stat
from pathlib import Path

import pytest
import yaml

from muster.cli.main import run
from muster.schemas.job import JobSpec
from unit.cli.fake_muster import FakeMuster

JOB = """
name: train
team: research
priority: 60
labels: {project: llm}
command: [python, train.py]
pod: {env: {EPOCHS: "3", SEED: "1"}, secret_env: [{variable: HF_TOKEN, secret: hub, key: token}]}
task_groups: [{gpus: 8, replicas: 2, memory_mib: 4096}]
"""
TWO_GROUPS = "name: mpi\nteam: research\ntask_groups: [{name: launcher}, {name: worker, gpus: 8}]\n"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MUSTER_TEAM", "from-environment")
    return tmp_path / "config"


def saved(tmp_path: Path, text: str = JOB, name: str = "train") -> None:
    (tmp_path / "job.yaml").write_text(text)
    assert run(["template", "save", name, str(tmp_path / "job.yaml")]) == 0


def submitted(muster: FakeMuster, *words: str) -> JobSpec:
    assert run(["submit", "--template", "train", *words]) == 0
    return muster.specs[-1]


def test_a_template_is_a_private_file_of_the_user(tmp_path: Path, config: Path) -> None:
    saved(tmp_path)
    file = config / "muster" / "templates" / "train.yaml"
    assert yaml.safe_load(file.read_text())["task_groups"] == [{"gpus": 8, "replicas": 2, "memory_mib": 4096}]
    assert [stat.S_IMODE(one.stat().st_mode) for one in (file, file.parent)] == [0o600, 0o700]


def test_templates_are_listed_shown_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path)
    saved(tmp_path, TWO_GROUPS, "mpi")
    capsys.readouterr()
    assert run(["template", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["TEMPLATE", "NAME", "TEAM", "GPUS", "COMMAND"],
        ["mpi", "mpi", "research", "8"],
        ["train", "train", "research", "16", "python", "train.py"],
    ]
    assert run(["template", "show", "train"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load(JOB)
    assert run(["template", "rm", "mpi", "--yes"]) == 0
    capsys.readouterr()
    assert run(["template", "list", "-o", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["train"]


def test_a_template_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path)
    (config / "muster" / "templates" / "broken.yaml").write_text("name: [")
    capsys.readouterr()
    assert run(["template", "list"]) == 0
    out = capsys.readouterr().out
    assert "broken.yaml" in out
    assert "train.py" in out


def test_a_template_is_submitted_as_it_is(muster: FakeMuster, tmp_path: Path) -> None:
    saved(tmp_path)
    assert submitted(muster) == JobSpec.model_validate(yaml.safe_load(JOB))


def test_given_options_override_the_fields_and_others_leave_them(muster: FakeMuster, tmp_path: Path) -> None:
    saved(tmp_path)
    job = submitted(
        muster, "--name", "other", "--replicas", "4", "--label", "stage=2", "--env", "EPOCHS=9", "--run-time-s", "60",
        "--env-secret", "HF_TOKEN=other/token", "--", "python", "eval.py",
    )  # fmt: skip
    assert (job.name, job.team, job.priority, job.total_run_time_s) == ("other", "research", 60, 60.0)
    (group,) = job.task_groups
    assert (group.gpus, group.replicas, group.memory_mib) == (8, 4, 4096)
    assert job.labels == {"project": "llm", "stage": "2"}
    assert job.pod.env == {"EPOCHS": "9", "SEED": "1"}
    assert [(one.variable, one.secret) for one in job.pod.secret_env] == [("HF_TOKEN", "other")]
    assert job.command == ("python", "eval.py")


def test_a_fraction_of_a_gpu_replaces_whole_gpus(muster: FakeMuster, tmp_path: Path) -> None:
    saved(tmp_path)
    (group,) = submitted(muster, "--gpu-milli", "250").task_groups
    assert (group.gpus, group.gpu_milli) == (0, 250)


def test_set_changes_any_field(muster: FakeMuster, tmp_path: Path) -> None:
    saved(tmp_path)
    job = submitted(
        muster, "--set", "gpus=16", "--set", "task_groups.0.replicas=3", "--set", "pod.env.EPOCHS=7", "--set",
        "priority=10", "--set", "topology={level: rack}", "--set", "preemptible=false", "--set", "labels.run=2",
    )  # fmt: skip
    (group,) = job.task_groups
    assert (group.gpus, group.replicas, job.priority, job.preemptible) == (16, 3, 10, False)
    assert group.topology is None
    assert job.topology is not None
    assert (job.topology.level, job.pod.env["EPOCHS"], job.labels["run"]) == ("rack", "7", "2")


def test_a_field_of_one_of_several_groups_is_named(
    muster: FakeMuster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, TWO_GROUPS)
    for words in (["--set", "gpus=4"], ["--gpus", "4"]):
        assert run(["submit", "--template", "train", *words]) == 2
        assert f"{words[0]}: the template has several task groups" in capsys.readouterr().err
    assert [group.gpus for group in submitted(muster, "--set", "task_groups.1.gpus=4").task_groups] == [0, 4]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "gpus"], "--set: 'gpus' is not FIELD=VALUE"),
        (["--set", "gpus=many"], "task_groups.0.gpus: "),
        (["--set", "colour=red"], "colour: is no field"),
        (["--set", "task_groups.1.gpus=1"], "there is no item '1'"),
        (["--set", "name.first=a"], "a part of this path is a single value"),
        (["--set", "gpus=[1"], "--set: gpus: "),
        (["--set", ".".join("a" * 9) + "=1"], "has more than 8 parts"),
        (["--gpus", "9999"], "task_groups.0.gpus: "),
        (["job.yaml"], "FILE and --template: give the file or the options of one job, not both"),
    ],
)
def test_a_wrong_change_is_refused(
    muster: FakeMuster, tmp_path: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path)
    assert run(["submit", "--template", "train", *words]) == 2
    assert told in capsys.readouterr().err
    assert muster.specs == []


@pytest.mark.parametrize("name", ["../train", "a/b", ".hidden", "-", "a" * 64, "nul\\0"])
def test_a_name_that_is_no_file_name_is_refused(name: str, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["template", "show", "--", name], ["submit", "--template", name]):
        assert run(words) == 2
        assert "is not a valid template's name" in capsys.readouterr().err
    assert not config.exists()


def test_a_template_is_replaced_only_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path)
    assert run(["template", "save", "train", str(tmp_path / "job.yaml")]) == 2
    assert "--replace replaces it" in capsys.readouterr().err
    assert run(["template", "save", "train", str(tmp_path / "job.yaml"), "--replace"]) == 0


def test_only_one_job_is_a_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.yaml").write_text(f"{JOB}---{JOB}")
    assert run(["template", "save", "two", str(tmp_path / "two.yaml")]) == 2
    assert "holds 2 jobs; a template is one job" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["template", "show", "nothing"], "there is no template nothing"),
        (["template", "rm", "nothing", "--yes"], "there is no template nothing"),
        (["submit", "--template", "nothing"], "there is no template nothing"),
        (["submit", "--gpus", "1", "--set", "gpus=2"], "--set: changes a field of a template"),
    ],
)
def test_what_is_not_there_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert told in capsys.readouterr().err
