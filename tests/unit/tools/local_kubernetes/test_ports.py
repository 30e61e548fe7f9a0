"""Ports of a plane stay out of the kernel's range for outgoing connections."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_tools.local_kubernetes.ports import FIRST, LAST, NoPortsError, free_ports


@given(seed=st.integers(0, 10**7), taken=st.sets(st.integers(FIRST, FIRST + 500)), count=st.integers(1, 12))
def test_ports_differ_are_free_and_in_range(seed: int, taken: set[int], count: int) -> None:
    found = free_ports(count, seed=seed, free=lambda port: port not in taken)

    assert len(set(found)) == count
    assert all(FIRST <= port < LAST and port not in taken for port in found)


def test_a_range_without_free_ports_is_told() -> None:
    with pytest.raises(NoPortsError, match="3 free ports wanted, 0 found"):
        free_ports(3, seed=0, free=lambda _port: False)


def test_no_outgoing_connection_is_given_one_of_them() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert lowest >= LAST
