"""Cores kept for the system are taken off their socket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.agent.core.kubernetes.cpus import CpuLayout, CpuSetError, read_cpu_set, socket_cpu_milli

TWO_SOCKETS = CpuLayout(128, sockets=2, threads=2)


def test_second_threads_belong_to_the_sockets_of_the_first() -> None:
    assert [TWO_SOCKETS.socket_of(cpu) for cpu in (0, 31, 32, 63, 64, 95, 96, 127)] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_two_whole_cores_of_the_first_socket_are_kept() -> None:
    reserved = read_cpu_set("0-1,64-65")
    assert socket_cpu_milli(TWO_SOCKETS, reserved=reserved, cpu_milli=124_000) == (60_000, 64_000)


def test_what_others_use_is_shared_by_the_sockets() -> None:
    assert socket_cpu_milli(TWO_SOCKETS, reserved=(), cpu_milli=64_000) == (32_000, 32_000)


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "9000"])
def test_what_is_no_cpu_set_is_refused(text: str) -> None:
    with pytest.raises(CpuSetError, match="reserved_cpus"):
        read_cpu_set(text)


def test_cpus_must_divide_into_sockets() -> None:
    with pytest.raises(CpuSetError, match="do not divide"):
        CpuLayout(10, sockets=4)


@given(st.sets(st.integers(0, 127)), st.integers(0, 200_000))
def test_sockets_never_give_more_than_the_node(reserved: set[int], cpu_milli: int) -> None:
    given_milli = socket_cpu_milli(TWO_SOCKETS, reserved=reserved, cpu_milli=cpu_milli)
    assert sum(given_milli) <= min(cpu_milli, 128_000 - 1000 * len(reserved))
    assert min(given_milli) >= 0
