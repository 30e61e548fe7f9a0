"""Checks as they are run: programs with limits, and what each of them asks of which program."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kit.waiting import until
from muster.checks import catalogue, storage_probe
from muster.checks.programs import Ran, run
from muster.checks.runner import Place, place_of, probe, run_plan
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, PreflightPlan

PASS, FAIL, CANNOT_RUN = CheckOutcome.PASS, CheckOutcome.FAIL, CheckOutcome.CANNOT_RUN
PLACE = Place("n1", gpus=2)
WELL = "GPU-a, 34, No, No, No, None\nGPU-b, 35, No, No, No, None\n"


class Tools:
    """Implements `Run`: answers by the name of the program."""

    def __init__(self, **answers: Ran) -> None:
        self.answers = {name.replace("_", "-"): ran for name, ran in answers.items()}
        self.asked: list[tuple[str, ...]] = []
        self.limits: list[float] = []

    def __call__(self, command: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None) -> Ran:
        self.asked.append(tuple(command))
        self.limits.append(limit_s)
        return self.answers.get(Path(command[0]).name, Ran(None, why=f"{command[0]}: No such file or directory"))


def outcome(order: CheckOrder, tools: Tools, place: Place = PLACE) -> CheckOutcome:
    return probe(order, place, limit_s=60.0, run=tools).outcome


# --- programs ----------------------------------------------------------------------------------------------------


def test_a_program_that_ends_gives_its_code_and_its_words() -> None:
    ran = run((sys.executable, "-c", "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)"), limit_s=30)
    assert (ran.code, sorted(ran.text.split())) == (3, ["a", "b"])


def test_a_program_that_is_not_there_is_told() -> None:
    ran = run(("no-such-program-of-muster",), limit_s=30)
    assert ran.code is None
    assert "No such file" in ran.why


async def test_a_program_that_hangs_is_ended_with_all_that_it_started() -> None:
    script = "import subprocess, sys; p = subprocess.Popen(['sleep', '300']); print(p.pid, flush=True); p.wait()"
    began = time.monotonic()
    ran = run((sys.executable, "-c", script), limit_s=1.0)
    assert ran.code is None
    assert ran.why == "not done within 1 s"
    assert time.monotonic() - began < 10
    child = int(ran.text)
    await until(lambda: not _lives(child), patience_s=10)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- which program, and what is made of it -------------------------------------------------------------------------


@pytest.mark.parametrize("check", [kind for kind in catalogue.KINDS if kind not in ("command", "storage")])
def test_without_its_tool_no_check_passes_or_fails(check: str) -> None:
    assert outcome(catalogue.order(check), Tools()) is CANNOT_RUN


@pytest.mark.parametrize(("code", "found"), [(0, PASS), (9, CANNOT_RUN)])
def test_a_tool_that_says_that_all_is_well_and_fails_is_not_believed(code: int, found: CheckOutcome) -> None:
    assert outcome(catalogue.order("gpu-health"), Tools(nvidia_smi=Ran(code, WELL))) is found


def test_an_old_driver_is_asked_again_without_what_it_does_not_know() -> None:
    tools = Tools(nvidia_smi=Ran(2, 'Field "gpu_recovery_action" is not a valid field to query.'))
    assert outcome(catalogue.order("gpu-health"), tools) is CANNOT_RUN
    assert ["gpu_recovery_action" in command[1] for command in tools.asked] == [True, False]


def test_the_level_of_the_diagnosis_is_a_parameter() -> None:
    tools = Tools()
    probe(catalogue.order("dcgm", parameters={"level": "3"}), PLACE, limit_s=1, run=tools)
    assert tools.asked == [("dcgmi", "diag", "-r", "3", "-j")]


def test_an_all_reduce_within_a_node_is_nccl_tests_and_over_several_torchrun() -> None:
    tools = Tools()
    probe(catalogue.order("all-reduce"), PLACE, limit_s=1, run=tools)
    probe(catalogue.order("all-reduce"), Place("n1", 8, rank=1, nodes=2, first="main-0.gang"), limit_s=1, run=tools)
    assert tools.asked[0][:1] == ("all_reduce_perf",)
    assert tools.asked[1][:9] == (
        "torchrun", "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "8", "--master-addr", "main-0.gang",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "found"), [(0, PASS), (1, FAIL), (124, FAIL), (125, CANNOT_RUN), (127, CANNOT_RUN), (-9, CANNOT_RUN)]
)
def test_the_exit_code_of_an_own_command_says_which(code: int, found: CheckOutcome) -> None:
    order = catalogue.order("command", command=("mine", "--all"))
    assert outcome(order, Tools(mine=Ran(code, "words"))) is found


def test_a_check_of_a_newer_version_could_not_run() -> None:
    assert outcome(CheckOrder(check="quantum-link"), Tools()) is CANNOT_RUN


@pytest.mark.parametrize(("said", "gpus"), [("8", 8), ("", None), ("many", None)])
def test_a_pod_says_where_it_is(said: str, gpus: int | None) -> None:
    told = {"MUSTER_PREFLIGHT_GPUS": said, "PET_NODE_RANK": "3", "PET_NNODES": "4", "PET_MASTER_ADDR": "first"}
    assert place_of(told, node="here") == Place("here", gpus, 3, 4, "first")


def test_pods_meet_for_checks_as_those_with_gpus_do() -> None:
    told = {"PET_NODE_RANK": "3", "PET_NNODES": "4", "PET_MASTER_ADDR": "a-pod-without-gpus"}
    told |= {"MUSTER_PREFLIGHT_RANK": "0", "MUSTER_PREFLIGHT_NODES": "2", "MUSTER_PREFLIGHT_FIRST": "worker-0"}
    assert place_of(told, node="here") == Place("here", None, 0, 2, "worker-0")


# --- storage -------------------------------------------------------------------------------------------------------


def test_storage_that_gives_back_what_was_written_passes_and_nothing_is_left(tmp_path: Path) -> None:
    order = catalogue.order("storage", parameters={"path": str(tmp_path), "mib": "2"})
    found = probe(order, PLACE, limit_s=60, run=run)
    assert (found.outcome, found.measured.unit) == (PASS, "MB/s")
    assert list(tmp_path.iterdir()) == []


def test_storage_that_is_too_slow_fails(tmp_path: Path) -> None:
    order = catalogue.order("storage", parameters={"path": str(tmp_path), "mib": "1", "mb_per_s_min": "1e12"})
    assert probe(order, PLACE, limit_s=60, run=run).outcome is FAIL


def test_storage_that_gives_back_something_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_probe, "_write", lambda file, _: file.write_bytes(b"x" * 1024 * 1024))
    assert storage_probe.probe(tmp_path, 1)[0] == storage_probe.FAILED


def test_a_path_that_is_not_there_could_not_be_tried(tmp_path: Path) -> None:
    order = catalogue.order("storage", parameters={"path": str(tmp_path / "gone")})
    assert probe(order, PLACE, limit_s=60, run=run).outcome is CANNOT_RUN


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_storage_that_is_full_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: Path, mib: int) -> None:
        file.symlink_to("/dev/full")
        file.write_bytes(b"x" * 8192 * mib)

    monkeypatch.setattr(storage_probe, "_write", write)
    assert storage_probe.probe(tmp_path, 1)[0] == storage_probe.FAILED


# --- a whole plan --------------------------------------------------------------------------------------------------


class Clock:
    """Goes on by `step_s` with each look."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_what_there_is_no_time_for_could_not_run_and_the_others_get_what_is_left() -> None:
    order = catalogue.order("command", command=("mine",), limit_s=40)
    tools = Tools(mine=Ran(0))
    plan = PreflightPlan(suite="ours", checks=(order,) * 4, limit_s=100)
    results = list(run_plan(plan, PLACE, run=tools, now_s=Clock(20.0)))
    assert [one.outcome for one in results] == [PASS, PASS, CANNOT_RUN, CANNOT_RUN]
    assert tools.limits == [40, 40]
    assert {one.node for one in results} == {"n1"}


def test_a_parameter_that_is_no_number_could_not_run() -> None:
    order = CheckOrder(check="dcgm", parameters={"level": "high"})
    (result,) = run_plan(PreflightPlan(suite="x", checks=(order,)), PLACE, run=Tools(), now_s=Clock(0.0))
    assert result.outcome is CANNOT_RUN
    assert "level" in result.detail
