"""Readers of the field's tools, in both directions: what is well passes, what is not fails, and silence is neither."""

from pathlib import Path

import pytest

from muster.checks.readers import (
    FIELDS,
    Measurement,
    Reading,
    is_unknown_field,
    read_all_reduce,
    read_dcgm,
    read_list,
    read_nccl,
    read_nvbandwidth,
    read_query,
)
from muster.schemas.facts.operations import CheckOutcome

PASS, FAIL, CANNOT_RUN = CheckOutcome.PASS, CheckOutcome.FAIL, CheckOutcome.CANNOT_RUN
FIXTURES = Path(__file__).parents[2] / "fixtures" / "checks"
LISTED = "GPU {0}: NVIDIA H100 80GB HBM3 (UUID: GPU-{0}0000000-aaaa-bbbb-cccc-000000000000)\n"
WELL = "GPU-a, 34, No, No, No, None\n"


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def query(*rows: str) -> Reading:
    return read_query("".join(rows), FIELDS, temperature_c_max=90.0)


# --- dcgmi diag --------------------------------------------------------------------------------------------------


def test_a_diagnosis_without_a_failure_passes() -> None:
    assert read_dcgm(fixture("dcgm4-pass.json")).outcome is PASS


@pytest.mark.parametrize(
    ("name", "device", "code", "words"),
    [
        ("dcgm4-fail.json", "GPU 3", "DCGM_FR_26", "pcie: GPU 3 is running at PCI link width 8X"),
        ("dcgm3-fail.json", "GPU 2", "DCGM_FR_91", "Page Retirement/Row Remap: GPU 2 had a pending row remap"),
    ],
)
def test_a_failure_of_one_test_on_one_gpu_fails_it(name: str, device: str, code: str, words: str) -> None:
    found = read_dcgm(fixture(name))
    assert (found.outcome, found.device, found.code) == (FAIL, device, code)
    assert found.detail.startswith(words)


def test_the_diagnosis_may_stand_among_other_lines() -> None:
    text = "Warning: something\n" + fixture("dcgm4-fail.json") + "\nerror code 5\n"
    assert read_dcgm(text).outcome is FAIL


def test_what_was_skipped_is_no_pass() -> None:
    text = fixture("dcgm4-pass.json").replace('"Pass"', '"Skip"')
    assert read_dcgm(text).outcome is CANNOT_RUN


def test_a_warning_passes_and_is_told() -> None:
    text = fixture("dcgm3-fail.json").replace('"Fail"', '"Warn"')
    assert read_dcgm(text).outcome is PASS
    assert "pending row remap" in read_dcgm(text).detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: unable to establish a connection to the specified host: localhost",
        '{"DCGM Diagnostic": {"runtime_error": "Diagnostic already running"}}',
        '{"runtime_error": "Unable to complete diagnostic"}',
        '{"DCGM Diagnostic": {"test_categories": []}}',
        '{"something": "else"}',
        "{",
    ],
)
def test_a_diagnosis_that_did_not_happen_could_not_run(text: str) -> None:
    assert read_dcgm(text).outcome is CANNOT_RUN


def test_a_status_that_nobody_knows_is_no_pass() -> None:
    assert read_dcgm(fixture("dcgm4-pass.json").replace('"Pass"', '"Perhaps"')).outcome is CANNOT_RUN


# --- nvidia-smi --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "expected", "outcome"),
    [(8, 8, PASS), (7, 8, FAIL), (0, 8, FAIL), (1, None, PASS), (0, None, CANNOT_RUN), (2, 0, PASS)],
)
def test_gpus_are_counted(gpus: int, expected: int | None, outcome: CheckOutcome) -> None:
    assert read_list("".join(LISTED.format(n) for n in range(gpus)), expected=expected).outcome is outcome


def test_parts_of_gpus_are_no_gpus() -> None:
    text = LISTED.format(0) + "  MIG 1g.10gb     Device  0: (UUID: MIG-0b51d5b0-d5d4-5d3c-9a43-08f8c3ddd38d)\n"
    assert read_list(text, expected=2).outcome is FAIL


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU0000:53:00.0: GPU is lost.  Reboot the system",
        "Unable to determine the device handle for gpu 0000:07:00.0: Unknown Error",
    ],
)
def test_a_gpu_off_the_bus_fails_however_many_others_answer(line: str) -> None:
    found = read_list(LISTED.format(0) + line, expected=1)
    assert (found.outcome, found.code) == (FAIL, "gpu-lost")
    assert query(WELL, line + "\n").outcome is FAIL


def test_gpus_that_are_well_pass() -> None:
    found = query(WELL, "GPU-b, 61, [N/A], 0, 0, [N/A]\n")
    assert (found.outcome, found.detail) == (PASS, "2 GPUs, 61 C at most")


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("GPU-b, 34, No, No, Yes, None\n", "row-remap-failed"),
        ("GPU-b, 34, No, Yes, No, None\n", "row-remap-pending"),
        ("GPU-b, 34, No, 1, 0, None\n", "row-remap-pending"),
        ("GPU-b, 34, Yes, No, No, None\n", "page-retirement-pending"),
        ("GPU-b, 34, No, No, No, Reset\n", "recovery-action"),
        ("GPU-b, 34, No, No, No, Drain and Reset\n", "recovery-action"),
        ("GPU-b, 95, No, No, No, None\n", "hot"),
    ],
)
def test_one_gpu_that_is_not_well_fails_the_check_and_is_named(row: str, code: str) -> None:
    found = query(WELL, row)
    assert (found.outcome, found.device, found.code) == (FAIL, "GPU-b", code)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "GPU-a, [N/A], [N/A], [N/A], [N/A], [N/A]\n",
        WELL + "and more\n",
    ],
)
def test_a_driver_that_tells_nothing_is_no_healthy_gpu(text: str) -> None:
    assert query(text).outcome is CANNOT_RUN


def test_an_old_driver_says_which_field_it_does_not_know() -> None:
    assert is_unknown_field('Field "gpu_recovery_action" is not a valid field to query.\n')
    assert not is_unknown_field(WELL)


# --- bandwidths --------------------------------------------------------------------------------------------------

NCCL = """#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
   268435456      67108864     float     sum      -1   1119.8  239.71  419.49      0   1117.4  240.24  420.42      0
# Out of bounds values : {wrong}
# Avg bus bandwidth    : {average}
#
"""


@pytest.mark.parametrize(("average", "outcome"), [("448.212", PASS), ("48.2", FAIL), ("1.5e+02", FAIL)])
def test_an_all_reduce_is_as_fast_as_its_average_bus_bandwidth(average: str, outcome: CheckOutcome) -> None:
    found = read_nccl(NCCL.format(wrong="0 OK", average=average), gb_per_s_min=400.0)
    assert (found.outcome, found.measured) == (outcome, Measurement(float(average), 400.0, "GB/s"))


def test_a_wrong_sum_fails_however_fast_it_was() -> None:
    found = read_nccl(NCCL.format(wrong="3 FAILED", average="448.212"), gb_per_s_min=400.0)
    assert (found.outcome, found.code) == (FAIL, "wrong-sums")


@pytest.mark.parametrize(
    "text", ["", "Test NCCL failure common.cu:1005 'unhandled system error'", "NCCL INFO Bootstrap"]
)
def test_an_all_reduce_that_did_not_happen_could_not_run(text: str) -> None:
    assert read_nccl(text, gb_per_s_min=1.0).outcome is CANNOT_RUN
    assert read_all_reduce(text, gb_per_s_min=1.0).outcome is CANNOT_RUN


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("gb_per_s=120.5 wrong=0", PASS),
        ("gb_per_s=80.0 wrong=0", FAIL),
        ("gb_per_s=120.5 wrong=4", FAIL),
        ("gb_per_s=120.5", CANNOT_RUN),
    ],
)
def test_our_own_all_reduce_in_both_directions(line: str, outcome: CheckOutcome) -> None:
    assert read_all_reduce(f"noise\nmuster-all-reduce {line}\n", gb_per_s_min=100.0).outcome is outcome


@pytest.mark.parametrize(("least", "outcome"), [(390.0, PASS), (395.0, FAIL)])
def test_the_slowest_pair_of_gpus_counts(least: float, outcome: CheckOutcome) -> None:
    found = read_nvbandwidth(fixture("nvbandwidth.json"), gb_per_s_min=least)
    assert (found.outcome, found.measured.value) == (outcome, 391.02)
    assert found.device == ("GPU 1 and 0" if outcome is FAIL else "")


@pytest.mark.parametrize("status", ["Waived", "Error", "Not Found"])
def test_a_test_that_the_hardware_waives_measured_nothing(status: str) -> None:
    text = fixture("nvbandwidth.json").replace("Passed", status)
    assert read_nvbandwidth(text, gb_per_s_min=1.0).outcome is CANNOT_RUN


@pytest.mark.parametrize(
    "text", ["", "{}", '{"nvbandwidth": {"error": "no CUDA device"}}', '{"nvbandwidth": {"testcases": []}}', "{]"]
)
def test_a_bandwidth_that_nobody_measured_could_not_run(text: str) -> None:
    assert read_nvbandwidth(text, gb_per_s_min=0.0).outcome is CANNOT_RUN
