"""`muster device`."""

import json
from pathlib import Path

import pytest

from muster.cli import devices
from muster.cli.examples_dir import device_files, job_files
from muster.cli.main import run
from muster.core.instant import NS_PER_S
from muster.schemas.devices import (
    AllocationPolicy,
    AttachmentPhase,
    BreakerState,
    ComposabilitySpec,
    DeviceView,
    FabricView,
    Origin,
    PoolModel,
    RequestPhase,
    RequestView,
)
from unit.cli.fake_muster import FakeMuster

NOW = 1_800_000_000 * NS_PER_S
SPEC = ComposabilitySpec(model="H100", size=4)
(SAMPLE,) = device_files()


def device(phase: AttachmentPhase = AttachmentPhase.ONLINE, **rest: object) -> DeviceView:
    known: dict[str, object] = {"id": "a1", "cluster": "c", "model": "H100", "node": "n1", "fabric": "f1"}
    return DeviceView.model_validate({**known, "device_uuid": "GPU-1", "phase": phase, **rest})


def request(phase: RequestPhase = RequestPhase.RUNNING, **rest: object) -> RequestView:
    return RequestView.model_validate({"name": "r1", "cluster": "c", "spec": SPEC, "phase": phase, **rest})


def test_options_are_a_request(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["device", "attach", "--model", "H100", "--count", "4", "--node", "n1", "--force", "--name", "r1"]) == 0
    assert muster.composed == [
        ("r1", ComposabilitySpec(model="H100", size=4, target_node="n1", force_detach=True)),
    ]
    assert capsys.readouterr().out == "r1: accepted, Updating, 0 of 4 online\n"


def test_a_request_that_waits_for_a_fabric_is_not_called_accepted(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.composes_to = RequestPhase.NODE_ALLOCATING
    assert run(["device", "attach", "--model", "H100", "--count", "4", "--name", "r1"]) == 0
    assert capsys.readouterr().out == "r1: not yet judged, NodeAllocating, 0 of 4 online\n"


def test_memory_is_spread_over_nodes(muster: FakeMuster) -> None:
    assert run(["device", "attach", "--model", "M", "--count", "2", "--type", "cxlmemory", "--spread"]) == 0
    ((_, spec),) = muster.composed
    assert (spec.type, spec.allocation_policy) == ("cxlmemory", AllocationPolicy.DIFFERENTNODE)


def test_each_request_without_a_name_gets_one_of_its_own(muster: FakeMuster) -> None:
    for _ in range(2):
        assert run(["device", "attach", "--model", "H100", "--count", "1"]) == 0
    names = {name for name, _ in muster.composed}
    assert len(names) == 2
    assert all(name.startswith("request-") for name in names)


def test_the_published_sample_is_sent_as_it_stands(muster: FakeMuster) -> None:
    assert run(["device", "attach", "-f", str(SAMPLE)]) == 0
    ((name, spec),) = muster.composed
    assert name == "gpus-for-node1"
    assert spec == ComposabilitySpec(
        type="gpu", size=2, model="NVIDIA-A100-PCIE-40GB", target_node="node1", force_detach=True,
        allocation_policy=AllocationPolicy.SAMENODE,
    )  # fmt: skip
    assert SAMPLE not in job_files()


def test_several_requests_of_a_file_are_sent_in_order_until_one_is_refused(
    muster: FakeMuster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SAMPLE.read_text()
    file = tmp_path / "requests.yaml"
    file.write_text("---\n".join(text.replace("gpus-for-node1", name) for name in ("one", "two", "three")))
    muster.refuses = "two"
    assert run(["device", "attach", "-f", str(file)]) == 3
    assert [name for name, _ in muster.composed] == ["one"]
    assert "spec.size: the pool has 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--count", "1"], "--model"),
        (["--model", "H100"], "--count"),
        (["--model", "H100", "--count", "-1"], "--count"),
        (["--model", "H100", "--count", "5000"], "--count"),
        (["--model", "H100", "--count", "1", "--node", "n1", "--spread"], "--spread"),
        (["--model", "H100", "--count", "1", "--name", "Two Words"], "--name"),
        (["-f", str(SAMPLE), "--model", "H100"], "--file"),
        (["-f", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    muster: FakeMuster, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["device", "attach", *arguments]) == 2
    assert named in capsys.readouterr().err
    assert not muster.composed


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("size: 2", "size: two"), "spec.resource.size"),
        (("kind: Comp", "kind: Dec"), "kind"),
        (("model:", "modle:"), "modle"),
    ],
)
def test_a_file_that_makes_no_sense_names_its_field(
    muster: FakeMuster, tmp_path: Path, change: tuple[str, str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(SAMPLE.read_text().replace(*change))
    assert run(["device", "attach", "-f", str(file)]) == 2
    told = capsys.readouterr().err
    assert field in told
    assert str(file) in told


def test_programs_learn_the_name_and_whether_it_was_accepted(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str]
) -> None:
    attach = ["device", "attach", "--model", "H100", "--count", "1", "--name", "r1", "-o", "json"]
    assert run(attach) == 0
    muster.answers = False
    assert run(attach) == 0
    accepted, asked = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (accepted["name"], accepted["request"]["phase"]) == ("r1", "Updating")
    assert asked == {"name": "r1", "request": None}


def test_a_device_is_detached_by_its_uuid(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.device_rows = [device(AttachmentPhase.WITHHOLDING, holders=("JOB",))]
    assert run(["device", "detach", "GPU-1", "--force", "--reason", "fan"]) == 0
    muster.answers = False
    assert run(["device", "detach", "GPU-1"]) == 0
    assert muster.given_back == [("GPU-1", True, "fan"), ("GPU-1", False, "")]
    assert capsys.readouterr().out.splitlines() == [
        "GPU-1: detached from n1",
        "GPU-1: detach requested, withholding on n1; held by JOB",
    ]
    assert run(["device", "detach", "GPU-2"]) == 3


def test_all_devices_of_a_request_are_given_back(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.request_rows = [request(RequestPhase.CLEANING, resources=(device(AttachmentPhase.DETACHING),))]
    assert run(["device", "detach", "--request", "r1"]) == 0
    assert muster.given_back == [("r1", False, "")]
    assert capsys.readouterr().out == "r1: deletion requested, Cleaning, 0 of 4 online, 1 detaching\n"


@pytest.mark.parametrize("arguments", [[], ["GPU-1", "--request", "r1"]])
def test_what_to_detach_is_said_once(muster: FakeMuster, arguments: list[str]) -> None:
    assert run(["device", "detach", *arguments]) == 2
    assert not muster.given_back


@pytest.mark.parametrize(
    ("command", "told", "key"),
    [
        (["list"], "GPU-1", "device_uuid"),
        (["requests"], "1 of 4 online", "name"),
        (["requests", "r1"], "GPU-1", "name"),
        (["fabrics"], "3 H100", "name"),
    ],
)
def test_reads_are_tables_or_json(
    muster: FakeMuster, command: list[str], told: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.device_rows = [device()]
    muster.request_rows = [request(resources=(device(),))]
    muster.fabric_rows = [FabricView(name="f1", pool=(PoolModel(model="H100", free=3),))]
    for form in ("table", "wide"):
        assert run(["device", *command, "-o", form]) == 0
        assert told in capsys.readouterr().out
    assert run(["device", *command, "-o", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert key in (read[0] if isinstance(read, list) else read)


def test_an_unknown_request_is_refused(muster: FakeMuster) -> None:
    assert run(["device", "requests", "r9"]) == 3
    assert muster.request_rows == []


def test_a_device_that_is_not_known_yet_goes_by_its_attachment() -> None:
    coming = device(AttachmentPhase.ATTACHING, device_uuid="", request="r1", since=NOW - 120 * NS_PER_S)
    found = device(origin=Origin.FOUND, holders=("A", "B"))
    assert [row[:1] + row[4:] for row in devices.device_rows([coming, found], now_ns=NOW)] == [
        ("(a1)", "attaching", "2 min ago", "r1", ""),
        ("GPU-1", "online", "", "(found)", "A,B"),
    ]


@pytest.mark.parametrize(
    ("phases", "size", "told"),
    [
        (["online", "online", "attaching", "failed"], 4, "2 of 4 online, 1 attaching, 1 failed"),
        (["detached"], 0, "none attached"),
        (["online"], 0, "1 of 0 online"),
        ([], 2, "0 of 2 online"),
    ],
)
def test_how_far_a_request_is(phases: list[str], size: int, told: str) -> None:
    resources = tuple(device(AttachmentPhase(phase)) for phase in phases)
    spec = ComposabilitySpec(model="H100", size=size)
    assert devices.progress(request(resources=resources, spec=spec)) == told


def test_a_refused_request_tells_field_and_reason() -> None:
    refused = request(RequestPhase.REFUSED, field="size", error="the pool has 1", principal="olga")
    (row,) = devices.request_rows([refused], now_ns=NOW)
    assert row == ("r1", "Refused", "4 x H100", "samenode", "0 of 4 online", "olga", "", "size: the pool has 1")


def test_a_fabric_tells_its_pool_and_when_its_breaker_tries_again() -> None:
    pool = (PoolModel(model="H100", free=3, attached=2), PoolModel(model="A100", free=0, attached=1))
    fabric = FabricView(
        name="f1", driver="fm", pool=pool, breaker=BreakerState.OPEN, error="nonsense", retry_at=NOW + 20 * NS_PER_S,
        in_flight=2, limit=16, orphans=1, surveyed_at=NOW - 5 * NS_PER_S,
    )  # fmt: skip
    assert list(devices.fabric_rows([fabric], now_ns=NOW)) == [
        (
            "f1", "fm", "open, tries in 20 s", "3 H100, 0 A100", "2 H100, 1 A100", "2/16", "1", "5 s ago", "nonsense",
        ),
    ]  # fmt: skip
