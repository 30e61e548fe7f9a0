"""What people write and what the wire carries mean the same, to the last thousandth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.schemas.facts.queue import QueueSpec
from muster.schemas.quantities import AMOUNT_MAX, QuantityError, amounts, cpu_milli, gpu_milli, human, memory_mib

RESOURCES = ("gpu_milli", "gpu_milli:H100", "gpu_milli:A100-80GB", "cpu_milli", "memory_mib")
wire = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, AMOUNT_MAX))


def test_every_word_has_its_unit() -> None:
    written = {"gpu": 16, "gpu:H100": 8, "cpu": 64, "memory_gib": 512}
    assert amounts(written) == {
        "gpu_milli": 16_000,
        "gpu_milli:H100": 8_000,
        "cpu_milli": 64_000,
        "memory_mib": 524_288,
    }


@pytest.mark.parametrize(
    ("word", "written", "meant"),
    [("gpu", 0.1, 100), ("gpu", 1.001, 1001), ("cpu", 2.5, 2500), ("memory_gib", 0.5, 512)],
)
def test_a_fraction_is_read_as_written(word: str, written: float, meant: int) -> None:
    assert list(amounts({word: written}).values()) == [meant]


@given(wire)
def test_whatever_the_wire_carries_can_be_written_and_read_again(carried: dict[str, int]) -> None:
    assert amounts(human(carried)) == carried


@given(wire)
def test_what_is_read_is_good_for_a_queue(carried: dict[str, int]) -> None:
    assert QueueSpec(name="q", quota=amounts(human(carried))).quota == carried


def test_whole_amounts_are_shown_without_a_point() -> None:
    assert human({"gpu_milli": 16_000, "memory_mib": 512}) == {"gpu": 16, "memory_gib": 0.5}
    assert isinstance(human({"gpu_milli": 16_000})["gpu"], int)


@pytest.mark.parametrize(
    ("written", "key", "told"),
    [
        ({"gpus": 1}, "gpus", "unknown; write gpu"),
        ({"gpu_milli": 1000}, "gpu_milli", "gpu here"),
        ({"cpu:epyc": 1}, "cpu:epyc", "unknown"),
        ({"gpu:": 1}, "gpu:", "GPU model"),
        ({"gpu:a b": 1}, "gpu:a b", "GPU model"),
        ({"gpu": -1}, "gpu", "negative"),
        ({"gpu": True}, "gpu", "not a number"),
        ({"gpu": "16"}, "gpu", "not a number"),
        ({"gpu": None}, "gpu", "not a number"),
        ({"gpu": 0.0005}, "gpu", "finer than a thousandth"),
        ({"memory_gib": 0.1}, "memory_gib", "MiB"),
        ({"cpu": math.inf}, "cpu", "leave the resource out"),
        ({"cpu": math.nan}, "cpu", "not an amount"),
        ({"gpu": 10**15}, "gpu", "more than"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(written: dict[str, object], key: str, told: str) -> None:
    with pytest.raises(QuantityError) as refused:
        amounts(written)
    assert refused.value.key == key
    assert told in refused.value.reason
    assert str(refused.value).startswith(f"{key}: ")


def test_too_many_resources_are_refused() -> None:
    with pytest.raises(QuantityError, match="at most"):
        amounts({f"gpu:model{index}": 1 for index in range(65)})


def test_one_amount_alone_is_read_under_the_name_that_its_reader_gives() -> None:
    assert (gpu_milli(0.5, key="gpus"), cpu_milli(1.5, key="cpu"), memory_mib(2, key="memory_gib")) == (500, 1500, 2048)
    with pytest.raises(QuantityError, match=r"^nodes\[0\].gpus: "):
        gpu_milli(-1, key="nodes[0].gpus")


def test_an_unknown_resource_of_the_wire_is_refused() -> None:
    with pytest.raises(QuantityError, match="not a resource of the wire"):
        human({"disk": 1})
