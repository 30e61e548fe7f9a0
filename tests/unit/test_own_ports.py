"""Ports of tests: no two workers are given the same, and none that the kernel or a control plane may take."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.ports import FIRST, LAST, NoPortsError, PortRange
from muster_tools.local_kubernetes import ports as of_planes

COUNT = 20


@given(workers=st.integers(2, 64), seeds=st.lists(st.integers(0, 10**7), min_size=2, max_size=2), data=st.data())
def test_two_workers_are_never_given_the_same_port(workers: int, seeds: list[int], data: st.DataObject) -> None:
    pair = data.draw(st.lists(st.integers(0, workers - 1), min_size=2, max_size=2, unique=True))
    ranges = [
        PortRange(index=index, workers=workers, seed=seed, free=lambda _: True)
        for index, seed in zip(pair, seeds, strict=True)
    ]
    given_out = [{one.take() for _ in range(COUNT)} for one in ranges]
    assert [len(ports) for ports in given_out] == [COUNT, COUNT]
    assert not given_out[0] & given_out[1]
    assert all(FIRST <= port < LAST for port in given_out[0] | given_out[1])


def test_a_port_comes_again_only_after_all_others() -> None:
    one = PortRange(workers=100, free=lambda _: True)
    first = one.take()
    assert first not in {one.take() for _ in range(one.size - 1)}
    assert one.take() == first


def test_what_somebody_listens_on_is_passed_over() -> None:
    one = PortRange(free=lambda port: port % 10 == 0)
    assert [one.take() for _ in range(2)] == [FIRST, FIRST + 10]


def test_a_range_that_is_full_is_told() -> None:
    with pytest.raises(NoPortsError, match="none of the 10000 ports from 10000 on is free"):
        PortRange(free=lambda _: False).take()


def test_the_range_is_below_those_of_control_planes_and_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert min(of_planes.FIRST, lowest) >= LAST
