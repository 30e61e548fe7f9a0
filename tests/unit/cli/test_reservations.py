"""`muster reserve` and `muster reservations`."""

import json

import pytest

from muster.cli.errors import CliError
from muster.cli.main import run
from muster.cli.reserving import Wanted, rows, spec_of
from muster.core.instant import NS_PER_S
from muster.schemas.facts.reservation import Repeat, ReservationSpec
from muster.schemas.views import ReservationView
from unit.cli.fake_muster import FakeMuster

NOW = 1_800_000_000 * NS_PER_S
HOUR_NS = 3600 * NS_PER_S


def test_gpus_are_kept_for_a_queue_every_week(muster: FakeMuster) -> None:
    what = ["--gpus", "64", "--model", "H100", "--for-queue", "research"]
    assert run(["reserve", "night", *what, "--starts", "2035-11-23T20:00Z", "--for", "10h", "--weekly"]) == 0
    (spec,) = muster.reserved
    assert (spec.gpus, spec.gpu_model, spec.queue, spec.repeat) == (64, "H100", "research", Repeat.WEEKLY)
    assert (spec.starts_at, spec.duration_s) == (2_079_460_800 * NS_PER_S, 36_000)


def test_nodes_are_kept_for_maintenance_from_now_on(muster: FakeMuster) -> None:
    nodes = ["--nodes", "gpu-1,gpu-2", "--nodes", "gpu-3", "--maintenance"]
    assert run(["reserve", "firmware", *nodes, "--in", "2h", "--for", "1h", "--reason", "bios"]) == 0
    (spec,) = muster.reserved
    assert (spec.nodes, spec.queue, spec.job_id, spec.reason) == (("gpu-1", "gpu-2", "gpu-3"), None, None, "bios")


def test_from_now_is_counted_from_now() -> None:
    wanted = Wanted(name="r", gpus=8, for_job="A" * 26, starts_in="2h", length="90m")
    spec = spec_of(wanted, now_ns=NOW)
    assert (spec.starts_at, spec.duration_s, spec.job_id) == (NOW + 2 * HOUR_NS, 5400, "A" * 26)


def test_a_reservation_is_ended_by_its_name(muster: FakeMuster) -> None:
    assert run(["reserve", "night", "--end", "--reason", "done"]) == 0
    assert muster.ended == [("night", "done")]
    assert run(["reserve", "night", "--end", "--gpus", "8"]) == 2


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"gpus": 0}, "--nodes, --gpus"),
        ({"nodes": ("n1",)}, "--nodes, --gpus"),
        ({"for_queue": ""}, "--for-queue, --for-job, --maintenance"),
        ({"maintenance": True}, "--for-queue, --for-job, --maintenance"),
        ({"starts_in": ""}, "--starts, --in"),
        ({"starts": "2035-11-23T20:00Z"}, "--starts, --in"),
        ({"length": ""}, "--for"),
        ({"length": "long"}, "--for"),
        ({"starts_in": "soon"}, "--in"),
        ({"starts_in": "", "starts": "2020-01-01T00:00Z"}, "--starts"),
        ({"name": "Night!"}, "name"),
        ({"weekly": True, "length": "8d"}, "duration_s"),
        ({"for_queue": "", "for_job": "x"}, "job_id"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change: dict[str, object], option: str) -> None:
    good: dict[str, object] = {"name": "r", "gpus": 8, "for_queue": "blue", "starts_in": "1h", "length": "1h"}
    with pytest.raises(CliError, match=option):
        spec_of(Wanted(**{**good, **change}), now_ns=NOW)  # type: ignore[arg-type]


def a_view(name: str, *, starts_in_s: int, active: bool = False, **fields: object) -> ReservationView:
    what: dict[str, object] = {"name": name, "starts_at": NOW, "duration_s": 5400, **fields}
    spec = ReservationSpec.model_validate(what)
    at = NOW + starts_in_s * NS_PER_S
    return ReservationView(name=name, cluster="c", spec=spec, next_starts_at=at, active=active, held_gpu_milli=4000)


def test_what_is_kept_now_stands_before_what_is_to_come() -> None:
    views = [
        a_view("later", starts_in_s=720, nodes=("n1", "n2")),
        a_view("now", starts_in_s=-60, active=True, gpus=8, gpu_model="H100", queue="blue"),
        a_view("soon", starts_in_s=60, gpus=8, job_id="A" * 26, repeat="weekly"),
    ]
    told = [(*row[:3], row[3].split(" (")[1], *row[4:]) for row in rows(views, now_ns=NOW)]
    assert told == [
        ("now", "8 GPUs H100", "queue blue", "1 min ago)", "1 h 30 min", "once", "active", "4"),
        ("soon", "8 GPUs", f"job {'A' * 26}", "in 1 min)", "1 h 30 min", "weekly", "pending", "-"),
        ("later", "n[1-2]", "maintenance", "in 12 min)", "1 h 30 min", "once", "pending", "-"),
    ]


def test_reservations_are_a_table_or_json(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.booked = [a_view("night", starts_in_s=0, gpus=8)]
    assert run(["reservations"]) == 0
    assert "night" in capsys.readouterr().out
    assert run(["reservations", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["spec"]["gpus"] == 8
