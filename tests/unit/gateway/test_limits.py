"""Which connections make room, and how much a bucket still gives."""

from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.connections import RESERVE, Admission, ConnectionTable
from muster.gateway.rates import Buckets, Rate


def a_table(*, most: int = 4, per_address: int = 2, proxies: tuple[str, ...] = ()) -> ConnectionTable[str]:
    return ConnectionTable(connections_max=most, per_address_max=per_address, proxies=proxies)


def test_the_longest_idle_connection_of_the_address_makes_room() -> None:
    table = a_table()
    table.admit("other", "192.0.2.2")
    table.admit("first", "192.0.2.1")
    table.admit("second", "192.0.2.1")
    table.mark_busy("first")
    assert table.admit("third", "192.0.2.1") == (Admission.ADMITTED, "second")
    table.mark_busy("third")
    assert table.admit("fourth", "192.0.2.1") == (Admission.ADDRESS_FULL, None)
    assert set(table.open()) == {"other", "first", "third"}


def test_when_all_is_full_the_longest_idle_connection_of_anybody_makes_room() -> None:
    table = a_table(most=2, per_address=2)
    table.admit("a", "192.0.2.1")
    table.admit("b", "192.0.2.2")
    table.mark_busy("a")
    table.mark_idle("a")
    assert table.admit("c", "192.0.2.3") == (Admission.ADMITTED, "b")


def test_without_an_idle_connection_a_reserve_is_left_and_no_more() -> None:
    table = a_table(most=1, per_address=1_000)
    table.admit("a", "192.0.2.1")
    table.mark_busy("a")
    for number in range(RESERVE):
        assert table.admit(f"r{number}", "192.0.2.2")[0] is Admission.ADMITTED
        table.mark_busy(f"r{number}")
        assert table.is_over
    assert table.admit("b", "192.0.2.3") == (Admission.FULL, None)


def test_a_network_of_ipv6_is_one_client_and_a_mapped_address_is_one_of_ipv4() -> None:
    table = a_table(most=100, per_address=1)
    for connection, address in (("a", "2001:db8::1"), ("b", "192.0.2.1")):
        table.admit(connection, address)
        table.mark_busy(connection)
    assert table.admit("c", "2001:db8::ffff:2")[0] is Admission.ADDRESS_FULL
    assert table.admit("d", "::ffff:192.0.2.1")[0] is Admission.ADDRESS_FULL
    assert table.admit("e", "2001:db8:0:1::1")[0] is Admission.ADMITTED


def test_proxies_and_sockets_without_addresses_are_not_limited() -> None:
    table = a_table(most=100, per_address=1, proxies=("192.0.2.0/24",))
    for number in range(10):
        assert table.admit(f"p{number}", "192.0.2.7") == (Admission.ADMITTED, None)
        assert table.admit(f"s{number}", "") == (Admission.ADMITTED, None)


def test_a_table_that_everybody_left_remembers_nobody() -> None:
    table = a_table()
    for address in ("192.0.2.1", "192.0.2.2"):
        table.admit(address, address)
        table.remove(address)
        table.remove(address)
    assert (len(table), table.open()) == (0, ())


def test_what_is_taken_comes_back_with_time_and_never_beyond_the_burst() -> None:
    buckets, rate = Buckets(keys_max=10), Rate(2, 4)
    assert [buckets.take("k", rate, cost=1, now_s=0) for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert buckets.left("k", rate, now_s=1) == 2
    assert buckets.left("k", rate, now_s=99) == 4


def test_what_costs_more_than_the_burst_is_taken_from_a_full_bucket() -> None:
    buckets, rate = Buckets(keys_max=10), Rate(1, 4)
    assert buckets.take("k", rate, cost=10, now_s=0) == 0
    assert buckets.take("k", rate, cost=1, now_s=0) == 7


def test_the_key_used_longest_ago_is_forgotten() -> None:
    buckets, rate = Buckets(keys_max=2), Rate(1, 1)
    for key in ("a", "b", "c"):
        buckets.take(key, rate, cost=1, now_s=0)
    assert [buckets.left(key, rate, now_s=0) for key in ("a", "b", "c")] == [1, 0, 0]


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 6)), max_size=30))
def test_no_more_is_given_in_a_time_than_the_rate_and_one_burst(asked: list[tuple[float, int]]) -> None:
    buckets, rate, now_s, given_out = Buckets(keys_max=4), Rate(2, 6), 0.0, 0
    for wait_s, cost in asked:
        now_s += wait_s
        if buckets.take("k", rate, cost=cost, now_s=now_s) == 0:
            given_out += cost
    assert given_out <= rate.burst + rate.per_s * now_s + 1e-6
