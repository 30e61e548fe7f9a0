"""What GPUs do, as the command line shows it."""

from muster.cli.usage import device_row, energy_row, fleet_lines, idle_lines, idle_row, job_lines, top_row
from muster.schemas.facts.telemetry import DeviceUse, Use
from muster.schemas.usage import (
    Energy,
    EnergyRow,
    ExporterCount,
    Idle,
    IdleGpu,
    IdleTeam,
    JobUse,
    Top,
    TopRow,
    UseColumn,
)

USE = Use(
    measured_s=7_200.0, busy_s=6_480.0, sm_measured_s=7_200.0, sm_active_s=720.0, memory_mib_max=40, memory_total_mib=80
)


def test_a_job_shows_busy_beside_truly_active_and_how_it_went() -> None:
    columns = tuple(UseColumn(at=number, busy_pct=float(busy)) for number, busy in enumerate((0, 50, 100)))
    told = JobUse(
        job_id="J", team="lab", name="train", gpus=2, use=USE, busy_pct=90.0, sm_active_pct=10.0, columns=columns,
        gpu_hours=2.0, idle_gpu_hours=0.5, energy_kwh=1.25, until=3_600 * 10**9,
    )  # fmt: skip
    lines = list(job_lines(told))
    assert "2 GPUs over 1:00:00: 2.00 GPU-hours, 0.50 of them idle, 1.25 kWh" in lines[1]
    assert lines[2].split() == ["busy", "(something", "ran)", "90.0", "%", "█" * 27 + "░" * 3, "▁▅█"]
    assert lines[3].split()[:4] == ["SMs", "active", "10.0", "%"]
    assert "not shown" in lines[4]
    assert "50.0 %" in lines[5]


def test_a_job_that_was_not_measured_says_so() -> None:
    (line,) = job_lines(JobUse(job_id="J", is_known=False))
    assert "nothing was measured" in line


def test_one_gpu_in_a_row() -> None:
    assert device_row(DeviceUse(node="n1", index=3, use=USE)) == (
        "n1",
        "3",
        "90%",
        "10%",
        "-",
        "50%",
        "0",
        "2.00",
        "0.00",
    )


def test_top_in_rows_and_what_does_not_answer_above() -> None:
    row = TopRow(key="J", name="train", team="lab", gpus=8, idle=1, busy_pct=97.4, sm_active_pct=12.0, power_w=4_321.0)
    assert top_row(row, of_jobs=True) == ("J", "train", "lab", "8", "1", "97%", "12%", "-", "0%", "4.3")
    assert top_row(row, of_jobs=False)[:3] == ("J", "1", "8")
    hung = ExporterCount(state="hung", count=3, nodes=("n1", "n2"))
    top = Top(gpus_expected=16, gpus_seen=15, held=8, idle_held=1, exporters=(ExporterCount(state="ok", count=9), hung))
    first, second = fleet_lines(top)
    assert first.startswith("15 of 16 GPUs seen, 8 held, 1 of them idle")
    assert second == "exporters hung: n1, n2 and 1 more"


def test_idle_gpus_by_team() -> None:
    gpu = IdleGpu(node="n1", index=3, job_id="J", name="nap", team="lab", user="ada", idle_s=3_600.0)
    teams = (IdleTeam(team="lab", held=8, idle=1, jobs=1, idle_s=3_600.0), IdleTeam(team="other", held=8))
    assert list(idle_lines(Idle(teams=teams, gpus=(gpu,), total=1))) == [
        "lab: 1 of 8 held GPUs idle in 1 jobs, 1.0 GPU-hours so far"
    ]
    assert idle_row(gpu) == ("lab", "n1", "3", "1:00:00", "J", "nap", "ada")
    assert list(idle_lines(Idle(after_s=600.0))) == ["no held GPU has done nothing for 10:00"]


def test_energy_of_a_team_with_its_share() -> None:
    lab = EnergyRow(key="lab", energy_kwh=1_250.0, gpu_hours=2_000.5, idle_gpu_hours=100.0)
    answer = Energy(rows=(lab, EnergyRow(key="", energy_kwh=1_250.0)), total=2, energy_kwh=2_500.0)
    shown = [list(energy_row(row, answer)) for row in answer.rows]
    assert shown == [["lab", "1,250.00", "50%", "2,000.50", "100.00"], ["unknown", "1,250.00", "50%", "0.00", "0.00"]]
