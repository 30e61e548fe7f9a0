"""`muster run` and its neighbors: exit codes, what stands where, and what is asked of kubectl."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from kit.fake_kubectl import FakeKubectl, put_kubectl
from kit.run_muster import CANCELLED, JOB, QUEUED, RUNNING, SLOTS, SUCCEEDED, RunMuster, failed, line
from muster.cli import job_output, kubectl, running
from muster.cli.main import run
from muster.client import JobView, Muster, Phase, WhyAnswer
from muster.schemas.job import JobKind
from muster.schemas.pods import KUBERNETES, JobPod

Put = Callable[[RunMuster], RunMuster]
POD = f"mj-{JOB.lower()}-1-0-0"


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Whatever a command asks, this Muster answers, and no look waits."""
    for module in (job_output, running):
        monkeypatch.setattr(module, "POLL_S", 0.0)

    def serve(muster: RunMuster) -> RunMuster:
        monkeypatch.setattr(Muster, "from_state_dir", lambda *_, **__: muster)
        return muster

    return serve


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    return put_kubectl(tmp_path / "bin", monkeypatch, code=9)


def on_kubernetes(*states: JobView) -> RunMuster:
    return RunMuster([*states], backend=KUBERNETES)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (SUCCEEDED, 0),
        (failed(7), 7),
        (failed(0), 1),
        (CANCELLED, 1),
        (CANCELLED.model_copy(update={"phase": Phase.TIMED_OUT, "exit_code": 143}), 1),
    ],
)
def test_run_ends_with_the_exit_code_of_the_job(
    end: JobView, code: int, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    muster = put(RunMuster([QUEUED, RUNNING, end], lines=[line("a\x1b[2J"), line("b\tc")]))
    assert run(["run", "--gpus", "8", "--env", "X=1", "--", "python", "train.py", "--lr", "3"]) == code
    out, err = capsys.readouterr()
    assert out == "a\\x1b[2J\nb\tc\n", "control characters of a job reach no terminal"
    assert ("muster: job" in err) == (code != 0)
    (spec,) = muster.specs
    assert (spec.command, spec.task_groups[0].gpus) == (("python", "train.py", "--lr", "3"), 8)
    assert muster.asked[0]["follow"] is True


def test_lines_of_several_replicas_begin_with_the_replica(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    several = [state.model_copy(update={"replicas": 2}) for state in (RUNNING, SUCCEEDED)]
    put(RunMuster(several, lines=[line("a"), line("b", replica=1), line("c", group=1, replica=3)]))
    assert run(["run", "--replicas", "2", "--", "x"]) == 0
    assert capsys.readouterr().out == "0: a\n1: b\n1/3: c\n"


def test_a_file_gets_the_output_as_it_was_printed(put: Put, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    put(RunMuster([RUNNING, SUCCEEDED], lines=[line("a\x1b[31m")]))
    assert run(["run", "--output", str(tmp_path / "out"), "--", "x"]) == 0
    assert (capsys.readouterr().out, (tmp_path / "out").read_text()) == ("", "a\x1b[31m\n")


def test_a_file_that_cannot_be_written_is_told_before_the_job_is_submitted(put: Put, tmp_path: Path) -> None:
    muster = put(RunMuster([RUNNING]))
    assert run(["run", "--output", str(tmp_path / "no" / "out"), "--", "x"]) == 2
    assert muster.specs == []


def test_a_file_that_cannot_be_written_on_ends_the_command_and_names_the_job(
    put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put(RunMuster([RUNNING], lines=[line("a")], is_endless=True))
    assert run(["run", "--output", "/dev/full", "--", "x"]) == 2
    told = capsys.readouterr().err
    assert "--output: /dev/full: No space left on device; the output is not complete" in told
    assert f"job {JOB} goes on" in told


def test_a_job_goes_on_when_its_output_cannot_be_read(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubectl.shutil, "which", lambda _: None)
    put(on_kubernetes(RUNNING, RUNNING, RUNNING, failed(4)))
    assert run(["run", "--", "x"]) == 4
    assert "muster: the output is not shown: kubectl: is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("scheduler",), ("all", "--gpus", "1"), ("python", "train.py")])
def test_a_command_without_dashes_submits_nothing_and_is_explained(
    words: tuple[str, ...], put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    muster = put(RunMuster([RUNNING]))
    assert run(["run", *words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "muster run --gpus 8 -- python train.py" in told
    assert "muster serve" in told
    assert muster.specs == []


@pytest.mark.parametrize("words", [(), ("--gpus", "1"), ("--",), ("--command", "a", "--", "b")])
def test_a_run_without_one_command_is_usage(words: tuple[str, ...], put: Put) -> None:
    muster = put(RunMuster([RUNNING]))
    assert run(["run", *words]) == 2
    assert muster.specs == []


def test_a_job_that_waits_says_why_once_for_each_reason(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "QUIET_S", 0.0)
    monkeypatch.setattr(running, "WHY_EVERY_S", 0.0)
    full = WhyAnswer(job=QUEUED, position=3, waiting=9, reason="no-capacity", detail="needs 8 GPUs", cure="wait")
    quota = WhyAnswer(job=QUEUED, position=1, waiting=9, detail="quota is used up")
    muster = put(RunMuster([QUEUED] * 50 + [SUCCEEDED], reasons=[full, full, quota, WhyAnswer(job=RUNNING)]))
    assert run(["run", "--", "x"]) == 0
    told = [text for text in capsys.readouterr().err.splitlines() if "position" in text]
    assert told == [
        f"job {JOB} is queued, position 3 of 9 in queue blue: needs 8 GPUs; wait",
        f"job {JOB} is queued, position 1 of 9 in queue blue: quota is used up",
    ]
    assert muster.reasons == [WhyAnswer(job=RUNNING)]


@pytest.mark.parametrize("count", [1, 2])
def test_the_first_ctrl_c_cancels_the_job_and_the_second_leaves(
    count: int, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    muster = put(RunMuster([RUNNING], lines=[line("a")] * count, is_endless=True))
    muster.on_line = lambda: os.kill(os.getpid(), signal.SIGINT)
    assert run(["run", "--", "x"]) == 130
    told = capsys.readouterr().err
    assert f"cancelling job {JOB}; Ctrl-C again leaves at once" in told
    assert ("cancelled" in told.splitlines()[-1]) == (count == 1)
    assert muster.cancels == 1


def test_logs_ask_for_the_wanted_part(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    muster = put(RunMuster([RUNNING.model_copy(update={"attempt": 3, "replicas": 9})], lines=[line("a", attempt=2)]))
    assert run(["logs", JOB, "--replica", "1/4", "--previous", "--tail", "5", "--timestamps", "-f"]) == 0
    assert muster.asked == [{"group": 1, "replica": 4, "attempt": 2, "tail": 5, "follow": True}]
    assert capsys.readouterr().out == "1970-01-01T00:00:01.000Z a\n"


def test_a_job_without_output_says_so_on_stderr(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put(RunMuster([RUNNING]))
    assert run(["logs", JOB]) == 0
    assert capsys.readouterr() == ("", f"job {JOB} is running and has no output of the last hour\n")


@pytest.mark.parametrize(
    "words", [("--previous",), ("--previous", "--attempt", "1"), ("--replica", "1/2/3"), ("--tail", "0")]
)
def test_a_part_that_cannot_be_is_usage(words: tuple[str, ...], put: Put) -> None:
    put(RunMuster([RUNNING]))
    assert run(["logs", JOB, *words]) == 2


def test_the_output_of_pods_is_read_with_the_users_kubectl(
    put: Put, kube: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    put(on_kubernetes(RUNNING.model_copy(update={"slots": SLOTS, "replicas": 2})))
    kube.printed(POD, "2026-11-28T19:00:00.5Z a\x1b[2J", "2026-99-28T19:00:00Z is no time")
    kube.printed(POD.removesuffix("0") + "1", "2026-11-28T19:00:01Z b")
    assert run(["logs", JOB, "--tail", "7"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "0: 2026-99-28T19:00:00Z is no time",
        "0: a\\x1b[2J",
        "1: b",
    ]
    assert [
        "logs",
        "--context=atlas",
        "--namespace=team-blue",
        "--container=main",
        "--timestamps",
        "--tail=7",
        POD,
    ] in (kube.called)


def test_an_error_of_kubectl_is_shown_without_control_characters(
    put: Put, kube: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    put(on_kubernetes(RUNNING))
    assert run(["logs", JOB]) == 0
    assert f"kubectl logs {POD} ended with exit code 1: " in (told := capsys.readouterr().err)
    assert "\x1b" not in told
    assert kube.called


def test_a_run_on_kubernetes_follows_the_pods_of_each_attempt(
    put: Put, kube: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    second = RUNNING.model_copy(update={"attempt": 2})
    put(on_kubernetes(QUEUED, RUNNING, RUNNING, second, second, SUCCEEDED.model_copy(update={"attempt": 2})))
    kube.printed(POD, "2026-11-28T19:00:00Z first")
    kube.printed(POD.replace("-1-0-0", "-2-0-0"), "2026-11-28T19:00:00Z second")
    assert run(["run", "--", "x"]) == 0
    assert capsys.readouterr().out == "first\nsecond\n"
    assert [call[-2:] for call in kube.called] == [["--follow", POD], ["--follow", POD.replace("-1-0-0", "-2-0-0")]]


@pytest.mark.parametrize(("words", "context"), [((), "atlas"), (("--kube-context", "own"), "own")])
def test_exec_enters_the_pod_with_the_users_kubectl_and_ends_as_the_command(
    words: tuple[str, ...], context: str, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = put_kubectl(tmp_path / "bin", monkeypatch, contexts=("atlas", "own"), code=9)
    put(on_kubernetes(RUNNING.model_copy(update={"slots": SLOTS})))
    assert run(["exec", JOB, "--replica", "1", *words, "--", "nvidia-smi", "-L"]) == 9
    pod = POD.removesuffix("0") + "1"
    where = [f"--context={context}", "--namespace=team-blue", "--container=main"]
    assert kube.called == [["exec", *where, "--stdin", pod, "--", "nvidia-smi", "-L"]]


def test_attach_shows_the_command_of_the_pod(put: Put, kube: FakeKubectl) -> None:
    put(on_kubernetes(RUNNING))
    assert run(["attach", JOB]) == 9
    assert [(call[0], call[-1]) for call in kube.called] == [("attach", POD)]


@pytest.mark.usefixtures("kube")
@pytest.mark.parametrize(
    ("job", "backend", "refusal"),
    [
        (RUNNING, "simulated", ("simulated jobs have no processes to enter", 3)),
        (QUEUED, KUBERNETES, ("has no pods yet", 3)),
        (SUCCEEDED, KUBERNETES, ("has ended (succeeded)", 3)),
        (RUNNING.model_copy(update={"origin": "Job a/b"}), KUBERNETES, ("stands for Job a/b", 3)),
        (RUNNING.model_copy(update={"cluster": "borealis"}), KUBERNETES, ("no context 'borealis'", 2)),
    ],
)
def test_what_cannot_be_entered_is_refused_in_one_line(
    job: JobView, backend: str, refusal: tuple[str, int], put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put(RunMuster([job], backend=backend))
    assert run(["exec", JOB, "--", "sh"]) == refusal[1]
    err = capsys.readouterr().err
    assert refusal[0] in err
    assert err.count("\n") == 1


def test_an_agent_that_does_not_report_the_namespace_is_named(
    put: Put, kube: FakeKubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    put(RunMuster([RUNNING], backend=KUBERNETES, namespace=""))
    assert run(["exec", JOB, "--", "sh"]) == 3
    assert "cluster atlas does not report the namespace" in capsys.readouterr().err
    assert kube.called == []


@pytest.mark.parametrize("name", ["--server=https://evil.example", "-f", "A", "a/b", ""])
def test_a_name_of_a_pod_is_no_option(name: str) -> None:
    with pytest.raises(ValidationError):
        JobPod(group=0, replica=0, node="n", name=name)


def test_without_kubectl_nothing_is_entered(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(on_kubernetes(RUNNING))
    monkeypatch.setattr(kubectl.shutil, "which", lambda _: None)
    assert run(["exec", JOB, "--", "sh"]) == 2
    assert "kubectl: is not installed" in capsys.readouterr().err


def test_a_replica_that_is_not_there_is_named(put: Put, kube: FakeKubectl, capsys: pytest.CaptureFixture[str]) -> None:
    put(on_kubernetes(RUNNING))
    assert run(["exec", JOB, "--replica", "5", "--", "sh"]) == 2
    assert "--replica: " in capsys.readouterr().err
    assert kube.called == []


def test_a_shell_is_a_job_that_ends_with_it(put: Put, kube: FakeKubectl) -> None:
    muster = put(on_kubernetes(QUEUED, RUNNING))
    assert run(["shell", "--gpus", "1", "--image", "cuda:12"]) == 9
    (spec,) = muster.specs
    assert (spec.name, spec.kind, spec.image, spec.total_run_time_s) == (
        "shell",
        JobKind.INTERACTIVE,
        "cuda:12",
        14_400,
    )
    assert kube.called[0][:1] == ["exec"]
    assert muster.cancels == 1


def test_a_shell_that_never_ran_enters_nothing(put: Put, kube: FakeKubectl) -> None:
    muster = put(on_kubernetes(QUEUED, failed(1)))
    assert run(["shell"]) == 1
    assert (kube.called, muster.cancels) == ([], 0)


def test_a_shell_needs_a_cluster_that_runs_processes(put: Put, kube: FakeKubectl) -> None:
    muster = put(RunMuster([RUNNING]))
    assert run(["shell", "--gpus", "1"]) == 3
    assert (muster.specs, kube.called) == ([], [])


@pytest.mark.parametrize(
    ("states", "words", "code"),
    [
        ([QUEUED, RUNNING, SUCCEEDED], (), 0),
        ([QUEUED, failed(3)], (), 1),
        ([QUEUED, RUNNING], ("--for", "running"), 0),
        ([QUEUED, SUCCEEDED], ("--for", "running"), 0),
        ([QUEUED, CANCELLED], ("--for", "running"), 1),
        ([QUEUED], ("--timeout", "0.01s"), 1),
        ([QUEUED], ("--timeout", "soon"), 2),
        ([QUEUED], ("--for", "luck"), 2),
    ],
)
def test_wait_ends_with_what_became_of_the_jobs(
    states: list[JobView], words: tuple[str, ...], code: int, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put(RunMuster(list(states)))
    assert run(["wait", JOB, *words]) == code
    out, err = capsys.readouterr()
    assert (out, bool(err)) == ("", code != 0)
