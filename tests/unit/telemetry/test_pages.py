"""Pages of every exporter generation, and what Muster says of them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from muster.core import Instant
from muster.schemas.facts.node import NodeJoined
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample, WatchLevel
from muster.telemetry.core.exporters import Freshness
from muster.telemetry.core.names import MEANINGS, is_blank
from muster.telemetry.core.pages import read_page
from muster.telemetry.core.samples import job_of_pod, node_sample, silent_sample

FIXTURES = Path(__file__).parents[2] / "fixtures" / "dcgm"
BUSY, IDLE = "GPU-d0f25a6f-9a3f-61b9-c128-3d14759651d7", "GPU-2b399198-c670-a848-173b-d3400051a200"
JOB = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
AT = Instant(1_000_000_000)


def page_text(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def sampled(
    name: str,
    *,
    description: NodeJoined | None = None,
    holders: Mapping[str, Mapping[str, int]] | None = None,
    live: frozenset[str] = frozenset({JOB}),
    origins: Mapping[str, str] | None = None,
) -> NodeSample:
    return node_sample(
        "n1",
        read_page(page_text(name)),
        at=AT,
        description=description,
        holders=holders or {},
        job_of_pod=lambda owner: job_of_pod(owner, live, origins or {}),
        is_live=live.__contains__,
    )


def node(*uuids: str, absent: tuple[int, ...] = ()) -> NodeJoined:
    return NodeJoined(cpu_milli=1, memory_mib=1, gpu_model="H100", gpu_uuids=uuids, absent=absent)


GENERATIONS = ("exporter-2.4", "exporter-3.3", "exporter-4.4", "dcgm-4.6", "dcgm-4.7", "dra")


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_generation_says_the_same_in_our_words(name: str) -> None:
    busy, idle = sampled(name).devices
    assert (busy.index, busy.uuid, idle.index, idle.uuid) == (0, BUSY, 1, IDLE)
    assert (busy.utilisation_pct, idle.utilisation_pct) == (99.0, 0.0)
    assert (busy.memory_used_mib, busy.memory_total_mib) == (69_004, 81_004)
    assert (busy.power_w, busy.temperature_c, busy.memory_temperature_c) == (612.67, 57.0, 48.0)
    assert (busy.tensor_active_pct, busy.dram_active_pct) == (51.25, 40.12)
    assert busy.energy_mj == pytest.approx(81_234_567_890, rel=1e-6)
    assert busy.nvlink_bytes_s == 40.21e9
    assert (busy.pcie_tx_bytes_s, busy.pcie_replays) == (1_203_411_200.0, 2)
    assert (busy.rows_remapped_sbe, idle.rows_remapped_dbe, busy.remap_failed) == (4, 1, False)
    assert (busy.xid, idle.xid) == (0, 79)
    assert busy.lacking == idle.lacking == ()


def test_exporter_1_had_names_of_its_own() -> None:
    busy, idle = sampled("exporter-1.x").devices
    assert (busy.uuid, busy.utilisation_pct, busy.power_w, busy.owners) == (BUSY, 97.0, 231.737, ("nlp/bert-0",))
    assert (busy.memory_used_mib, busy.memory_total_mib, busy.energy_mj) == (14_029, 16_130, 981_231_876)
    assert (busy.memory_temperature_c, busy.tensor_active_pct) == (None, 31.2)
    assert idle.owners == ()


@pytest.mark.parametrize("name", ["exporter-4.4", "dcgm-4.6", "dcgm-4.7"])
def test_what_newer_exporters_tell_of_health(name: str) -> None:
    busy, idle = sampled(name).devices
    assert all(watch.level is WatchLevel.PASS for watch in busy.watches)
    assert len(busy.watches) == len(idle.watches) == 11
    told = {watch.watch: (watch.level, watch.code) for watch in idle.watches if watch.level}
    assert told == {
        "MEM": (WatchLevel.WARN, "DCGM_FR_PENDING_ROW_REMAP"),
        "ALL": (WatchLevel.FAIL, "DCGM_FR_UNCONTAINED_ERROR"),
    }
    assert (busy.xid_counts, idle.xid_counts) == ((), ((79, 1),))
    assert (busy.throttled, idle.throttled) == (("sw_thermal",), ())
    assert (idle.remap_pending, idle.recovery_action, busy.recovery_action) == (True, "reset", "")
    assert (busy.ecc_sbe, idle.ecc_dbe, busy.sm_active_pct) == (12, 1, 78.125)


def test_the_driver_is_a_label_under_either_name() -> None:
    assert sampled("exporter-4.4").driver == sampled("dcgm-4.6").driver == "580.105.08"


def test_several_xids_of_one_window() -> None:
    assert sampled("exporter-3.3").devices[1].xid_counts == ((13, 1), (79, 2))


def test_blanks_are_no_measurements() -> None:
    first, second = sampled("blanks").devices
    assert first.lacking == ("utilisation_pct", "memory_used_mib", "memory_total_mib", "power_w", "temperature_c")
    assert (first.energy_mj, first.xid, first.sm_active_pct) == (None, None, None)
    assert (second.temperature_c, second.xid, second.sm_active_pct) == (41.0, 0, None)
    assert second.lacking == ("memory_total_mib", "power_w")


@pytest.mark.parametrize(
    "value",
    [2**63 - 16, 2**63 - 14, 2**31 - 16, 2**31 - 13, 140_737_488_355_328.0, 140_737_488_355_331.0, float("inf")],
)
def test_every_blank_of_dcgm_is_known(value: float) -> None:
    assert is_blank(value)


@pytest.mark.parametrize("value", [0, 2**31 - 17, 2**31, 5e12, 2**62, -1.5])
def test_no_measurement_is_taken_for_a_blank(value: float) -> None:
    assert not is_blank(value)


def test_instances_of_one_gpu_are_summed_up() -> None:
    (gpu,) = sampled("mig").devices
    assert (gpu.memory_used_mib, gpu.memory_total_mib) == (31_323, 50_323)
    assert gpu.utilisation_pct == pytest.approx(70 * 3 / 7 + 35 / 7)
    assert gpu.sm_active_pct == pytest.approx(42 * 3 / 7 + 14 / 7)
    assert (gpu.power_w, gpu.energy_mj, gpu.xid) == (201.5, 5_500_000, 0)
    assert gpu.owners == ("team-b/infer-5d9c7b8f9-abcde", "team-b/notebook-0")


def test_what_is_copied_to_every_pod_of_a_shared_gpu_counts_once() -> None:
    (gpu,) = sampled("time-slicing").devices
    assert (gpu.utilisation_pct, gpu.memory_used_mib, gpu.power_w) == (80.0, 5_000, 300.1)
    assert gpu.owners == ("lab/a-0", "lab/a-1")


def test_series_of_links_belong_to_their_gpu_and_those_of_switches_to_none() -> None:
    sample = sampled("links")
    assert [device.uuid for device in sample.devices] == [BUSY, IDLE]
    assert sample.devices[0].xid == 74


def holders_of(device: DeviceSample) -> tuple[str, ...]:
    return device.job_ids


def test_a_job_is_known_by_the_mapping_directory_by_its_pods_or_by_the_log() -> None:
    assert holders_of(sampled("exporter-4.4").devices[0]) == (JOB,)
    assert holders_of(sampled("exporter-3.3").devices[0]) == (JOB,)
    by_log = sampled("exporter-2.4", holders={BUSY: {"X": 1000}})
    assert holders_of(by_log.devices[0]) == ("X",)
    assert holders_of(by_log.devices[1]) == ()


def test_a_page_that_still_names_a_job_that_is_over_does_not_count_against_the_log() -> None:
    sample = sampled("exporter-3.3", live=frozenset(), holders={BUSY: {"X": 1000}})
    assert holders_of(sample.devices[0]) == ("X",)


@pytest.mark.parametrize(
    ("owner", "job"),
    [
        ("ns/mj-abcdefghijklmnopqrstuvwxyz-2-0-1", JOB),
        ("ns/mj-zzcdefghijklmnopqrstuvwxyz-2-0-1", None),
        ("ns/train-worker-0-0-x7k2p", "T"),
        ("other/train-worker-0-0-x7k2p", None),
        ("ns/notebook", "N"),
        ("ns/over-0", None),
        ("ns/a-b-c-d-e-f-g-h", None),
    ],
)
def test_pods_are_found_by_their_names_or_by_the_object_that_made_them(owner: str, job: str | None) -> None:
    assert job_of_pod(owner, {JOB, "T", "N"}, {"ns/train": "T", "ns/notebook": "N", "ns/over": "O"}) == job


def test_what_the_log_expects_and_the_page_does_not_show_is_missing() -> None:
    sample = sampled("exporter-4.4", description=node(BUSY, "GPU-gone", IDLE, "GPU-detached", absent=(3,)))
    assert (sample.gpus_expected, sample.missing) == (3, ("GPU-gone",))
    assert [device.index for device in sample.devices] == [0, 2], "places are the log's, not the driver's"
    assert sample.gpu_model == "H100"


def test_a_page_without_gpus_misses_all_of_them() -> None:
    sample = sampled("no-gpus", description=node(BUSY, IDLE))
    assert (sample.exporter, sample.missing) == (ExporterState.OK, (BUSY, IDLE))


def test_names_of_places_are_not_missed_but_counted() -> None:
    sample = sampled("exporter-4.4", description=node("n1/gpu-0", "n1/gpu-1", "n1/gpu-2"))
    assert (sample.gpus_expected, len(sample.devices), sample.missing) == (3, 2, ())


def test_silence_says_nothing_of_the_gpus() -> None:
    sample = silent_sample("n1", ExporterState.HUNG, "x" * 5_000, at=AT, description=node(BUSY), interval_s=10.0)
    assert (sample.exporter, sample.devices, sample.missing, sample.gpus_expected) == (ExporterState.HUNG, (), (), 1)
    assert len(sample.error) == 1_024


def test_a_page_that_says_the_same_for_too_long_is_stale() -> None:
    page, fresh = read_page(page_text("exporter-4.4")), Freshness(stale_s=60.0)
    assert not fresh.is_stale("n1", page, AT)
    assert not fresh.is_stale("n1", page, Instant(AT + 59_000_000_000))
    assert fresh.is_stale("n1", page, Instant(AT + 60_000_000_000))
    other = read_page(page_text("exporter-4.4").replace("612.670000", "612.671000"))
    assert not fresh.is_stale("n1", other, Instant(AT + 61_000_000_000))


def test_a_page_without_energy_and_power_never_is() -> None:
    page, fresh = read_page('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="a"} 0\n'), Freshness(stale_s=1.0)
    assert not any(fresh.is_stale("n1", page, Instant(AT + second * 10**9)) for second in range(10))


def test_no_name_means_two_things_and_old_and_new_ones_mean_the_same() -> None:
    by_name = {name: meaning.field for name, meaning in MEANINGS.items()}
    for old, new in (
        ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
        ("DEV_XID_ERRORS", "DEV_XID_ERROR"),
        ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
        ("DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
    ):
        assert by_name[f"DCGM_FI_{old}"] is by_name[f"DCGM_FI_{new}"]
