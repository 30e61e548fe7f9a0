"""Commands against a Muster that answers from memory: what they ask, print, and how they end."""

import json
import re
from pathlib import Path
from time import time_ns

import pytest

from muster.cli.main import run
from muster.client import DryRunAnswer, Phase, Slot, Topology
from muster.client.watch import TypedFact
from muster.core.instant import NS_PER_S
from unit.cli.fake_muster import FakeMuster


@pytest.fixture
def one(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> str:
    """A job that is there."""
    assert run(["submit", "--gpus", "1"]) == 0
    capsys.readouterr()
    return next(iter(muster.jobs))


def fact(name: str, job: str) -> TypedFact:
    return TypedFact(
        id=name, seq=1, time=1, stream="LOG_c", cluster="c", writer="scheduler", kind="job", subject_id=job, name=name
    )


JOB = "A" * 26


def test_options_make_the_job_that_they_say(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["submit", "--gpus", "8", "--replicas", "4", "--name", "train", "--team", "research", "-o", "json"])
    (told,) = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (told["name"], told["team"], told["gpu_milli"], told["replicas"]) == ("train", "research", 32_000, 4)


def test_the_jobs_of_a_file_have_keys_in_their_order(muster: FakeMuster, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("---".join(f"\nname: job-{n}\nteam: t\ntask_groups: [{{gpus: 1}}]\n" for n in range(3)))
    assert run(["submit", str(path), "--idempotency-key", "mine"]) == 0
    assert muster.keys == ["mine-1", "mine-2", "mine-3"]


def test_a_long_file_is_submitted_whole(muster: FakeMuster, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("---".join(f"\nname: job-{n}\nteam: t\ntask_groups: [{{gpus: 1}}]\n" for n in range(160)))
    assert run(["submit", str(path), "--idempotency-key", "mine"]) == 0
    assert muster.keys == [f"mine-{n}" for n in range(1, 161)]
    assert muster.requests == [100, 60]


def test_nothing_is_sent_after_the_request_with_a_refusal(muster: FakeMuster, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    names = ["refused", *["fine"] * 150]
    path.write_text("".join(f"--- {{name: {name}, team: research, task_groups: [{{gpus: 1}}]}}\n" for name in names))
    assert run(["submit", str(path)]) == 3
    assert (muster.requests, len(muster.jobs)) == ([100], 99)


def test_two_submissions_without_a_key_are_two_jobs(muster: FakeMuster) -> None:
    assert run(["submit", "--gpus", "1"]) == run(["submit", "--gpus", "1"]) == 0
    assert len(set(muster.keys)) == 2


@pytest.mark.parametrize("count", [1, 60])
def test_what_was_accepted_before_a_refusal_is_told(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str], tmp_path: Path, count: int
) -> None:
    path = tmp_path / "jobs.yaml"
    names = ["fine"] * count + ["refused"]
    path.write_text("".join(f"--- {{name: {name}, team: research, task_groups: [{{gpus: 1}}]}}\n" for name in names))
    assert run(["submit", str(path)]) == 3
    out, err = capsys.readouterr()
    assert next(iter(muster.jobs)) in out
    assert f"{len(muster.jobs)} of {count + 1} jobs were accepted" in err


def test_a_dry_run_submits_nothing(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["submit", "--gpus", "1", "--dry-run"]) == 0
    assert "placed now on gpu-[01-02]" in capsys.readouterr().out
    assert muster.jobs == {}


def test_a_dry_run_says_when_what_would_help_and_who_would_make_way(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.dry = DryRunAnswer(
        position=3, reason="quota", detail="8 of 8 GPUs are held", cure="wait", preempts=("A", "B"),
        expected_start_at=time_ns() + 750 * NS_PER_S, expected_basis="the slice of C ends",
    )  # fmt: skip
    assert run(["submit", "--gpus", "1", "--name", "train", "--dry-run"]) == 0
    first, cure, expected, preempts = capsys.readouterr().out.splitlines()
    assert first == "train: would wait, position 3: quota: 8 of 8 GPUs are held"
    assert (cure.strip(), preempts.strip()) == ("hint: wait", "would preempt: A, B")
    assert re.fullmatch(r"expected start: .*\d\d:\d\d \(in 12 min\): the slice of C ends", expected.strip())


def test_options_say_how_the_job_may_be_treated(muster: FakeMuster) -> None:
    size = ["--gpus", "1", "--replicas", "4", "--min-replicas", "2", "--group-topology", "socket!", "--same-model"]
    assert run(["submit", *size, "--not-preemptible", "--grace-s", "60", "--min-slice-s", "120"]) == 0
    (spec,) = muster.specs
    (group,) = spec.task_groups
    assert (group.replicas, group.min_replicas, group.topology) == (4, 2, Topology(level="socket", required=True))
    assert (spec.preemptible, spec.same_model, spec.grace_s, spec.min_slice_s) == (False, True, 60.0, 120.0)


def test_what_no_option_says_is_left_to_the_queue(muster: FakeMuster) -> None:
    assert run(["submit", "--gpus", "1"]) == 0
    given = muster.specs[0].model_fields_set
    assert given.isdisjoint({"total_run_time_s", "min_slice_s", "preemptible", "grace_s", "same_model"})


def test_a_job_shows_what_happened_and_what_will(
    muster: FakeMuster, one: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead = time_ns() + 750 * NS_PER_S
    slot = Slot(group=0, replica=0, node="n1")
    news = {
        "replicas": 3, "min_replicas": 1, "slots": (slot,), "preemptible": False, "preemptions": 2, "ran_s": 90.0,
        "slice_ends_at": ahead, "made_way_for": "B" * 26, "checkpointed_at": time_ns() - 90 * NS_PER_S,
    }  # fmt: skip
    muster.jobs[one] = muster.jobs[one].model_copy(update=news)
    assert run(["job", one]) == 0
    told = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    told = {name.strip(): value.strip() for name, value in told.items()}
    assert (told["replicas"], told["preemptible"], told["preemptions"]) == ("1 of 3, at least 1", "no", "2")
    assert (told["preempted for"], told["ran before"]) == ("B" * 26, "1:30")
    assert told["slice ends"].endswith("(in 12 min)")
    assert told["checkpointed"].endswith("(1 min ago)")


def test_a_waiting_job_with_a_reservation_shows_its_start(
    muster: FakeMuster, one: str, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.jobs[one] = muster.jobs[one].model_copy(
        update={"reason": "gpu", "reserved_at": time_ns() + 750 * NS_PER_S, "preemptions": 1}
    )
    assert run(["queue", "-o", "wide"]) == 0
    assert re.search(r"\(gpu, starts .*\d\d:\d\d\)", capsys.readouterr().out)
    assert run(["why", one]) == 0
    assert re.search(r"reserved start .*\(in 12 min\)", capsys.readouterr().out)


def test_a_dry_run_that_would_be_refused_exits_with_3(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.dry = DryRunAnswer(refused=True, field="queue", reason="unknown")
    assert run(["submit", "--gpus", "1", "--dry-run"]) == 3
    assert "queue: unknown" in capsys.readouterr().err


def test_queue_gives_jobs_and_queues(muster: FakeMuster, one: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["queue", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [job["id"] for job in told["jobs"]] == [one]
    assert [queue["name"] for queue in told["queues"]] == ["research"]
    assert run(["queue", "-o", "wide"]) == 0
    assert "JOBID" in capsys.readouterr().out


def test_why_says_position_reason_and_cure(muster: FakeMuster, one: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", one]) == 0
    told = capsys.readouterr().out
    assert "3 of 9 waiting" in told
    assert "needs 8 GPUs" in told


def test_reasons_lists_only_what_cannot_be_used(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nodes", "-R", "-o", "json"]) == 0
    assert [node["name"] for node in json.loads(capsys.readouterr().out)] == ["gpu-02"]


def test_clusters_say_who_picks_gpus_and_what_is_lacking(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["clusters"]) == 0
    told = capsys.readouterr().out
    assert "the kubelet" in told
    assert "no DRA: devices by count" in told
    assert run(["clusters", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["sharing"] == "none"


@pytest.mark.parametrize(("phase", "code"), [(Phase.SUCCEEDED, 0), (Phase.FAILED, 1), (Phase.CANCELLED, 1)])
def test_watching_a_job_ends_as_the_job_does(muster: FakeMuster, one: str, phase: Phase, code: int) -> None:
    muster.facts = [fact("running", one), fact(phase.value, one)]
    muster.jobs[one] = muster.jobs[one].model_copy(update={"phase": phase})
    assert run(["watch", one]) == code


def test_events_are_one_json_object_a_line(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.facts = [fact("queued", JOB), fact("placed", JOB)]
    assert run(["events", "-o", "json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["queued", "placed"]


def test_followed_events_begin_with_the_newest_and_are_asked_for_once(
    muster: FakeMuster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(FakeMuster, "events")  # between two questions facts would be missed
    muster.facts = [fact("queued", JOB), fact("placed", JOB), fact("running", JOB)]
    assert run(["events", "--follow", "--limit", "2", "-o", "json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["placed", "running"]


def test_a_trace_is_a_tree_or_json(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.facts = [fact("queued", JOB), fact("placed", JOB).model_copy(update={"causes": ("queued",), "time": 10**9})]
    assert run(["trace", JOB]) == 0
    assert "└─ scheduler placed" in capsys.readouterr().out
    assert run(["trace", JOB, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["services"] == ["scheduler"]


def test_a_trace_of_nothing_is_refused(muster: FakeMuster) -> None:
    assert run(["trace", JOB]) == 3
