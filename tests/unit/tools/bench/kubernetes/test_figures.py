"""`muster bench kubernetes`: what is counted, and what it is made into."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.machine import this_machine
from muster_tools.bench.kubernetes.charts import chart
from muster_tools.bench.kubernetes.counting import Requests, parse
from muster_tools.bench.kubernetes.observing import Seen
from muster_tools.bench.kubernetes.plan import GPUS_PER_NODE, Contender, Plan, packed
from muster_tools.bench.kubernetes.report import document, rows, verdicts
from muster_tools.bench.kubernetes.result import API_SERVER, Crowd, Result
from muster_tools.bench.kubernetes.run import Comparison
from muster_tools.bench.kubernetes.scenarios.old_stack import PER_ZONE, ZONES, free_by_zone, topology
from muster_tools.bench.workload import Quantiles

METRICS = """
# HELP apiserver_request_total Counter of apiserver requests.
apiserver_request_total{code="200",component="apiserver",resource="pods",scope="cluster",verb="LIST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",resource="nodes",scope="cluster",verb="LIST",version="v1"} 2
apiserver_request_total{code="0",component="apiserver",resource="nodes",scope="cluster",verb="WATCH",version="v1"} 4
apiserver_request_total{code="201",component="apiserver",resource="pods",scope="resource",verb="POST"} 1e+03
apiserver_request_total{code="409",component="apiserver",resource="pods",scope="resource",verb="POST",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",resource="pods",scope="resource",verb="GET",version="v1"} 5
apiserver_longrunning_requests{component="apiserver",resource="pods",scope="cluster",verb="WATCH",version="v1"} 6
apiserver_longrunning_requests{component="apiserver",resource="pods",scope="resource",verb="CONNECT",version="v1"} 9
apiserver_watch_list_duration_seconds_count{group="",resource="pods",scope="cluster",version="v1"} 2
apiserver_request_duration_seconds_count{verb="LIST"} 99
"""


def result(contender: Contender, *, placed: int = 100, binds_per_s: float = 50.0, p99: float = 1_000.0) -> Result:
    return Result(
        contender=contender,
        workloads=100,
        placed=placed,
        wall_s=placed / binds_per_s,
        latency_ms=Quantiles(p99 / 2, p99, p99),
        peak_mib={API_SERVER: 300.0, "kube-scheduler": 80.0, "second": 20.0},
        cpu_s={API_SERVER: 3.0, "kube-scheduler": 2.0, "second": 1.0},
        start=Requests({"LIST": 9}, lists_of={"pods": 9}),
        surge=Requests({"LIST": 1, "POST": 200}, lists_of={"pods": 1}),
        finished=True,
        bound_at_s=(0.1, 0.2),
        crowds=(
            Crowd(
                "informers", 100, 12.0, 50.0, 2.0, Requests({"LIST": 100}, watching=100, lists_of={"pods": 100}), 700.0
            ),
        ),
    )


class TestCounting:
    def test_requests_are_summed_by_verb(self) -> None:
        found = parse(METRICS)

        assert (found.lists, found.reads, found.writes) == (5, 5, 1_007)
        assert found.lists_of == {"pods": 3, "nodes": 2}

    def test_open_watches_count_beside_those_that_ended(self) -> None:
        found = parse(METRICS)

        assert (found.watching, found.watches, found.streamed) == (6, 10, 2)

    def test_what_the_api_server_lists_by_itself_is_nobodys(self) -> None:
        assert Requests({"LIST": 3}, lists_of={"limitranges": 2, "pods": 1}).lists == 1

    def test_only_what_came_since_is_told(self) -> None:
        earlier, later = Requests({"LIST": 3}, 2, 1, {"pods": 3}), Requests({"LIST": 5, "PUT": 1}, 1, 1, {"pods": 5})

        found = later.since(earlier)

        assert (found.lists, found.writes, found.watching, found.lists_of) == (2, 1, -1, {"pods": 2})
        assert later.since(later).lists_of == {}


class TestPacking:
    @given(count=st.integers(1, 400))
    def test_the_floor_fills_node_after_node_without_gaps(self, count: int) -> None:
        gpus = Plan(workloads=count, nodes=1).gpus
        used: dict[int, int] = {}
        for number, node in enumerate(packed(gpus)):
            used[node] = used.get(node, 0) + gpus[number]

        assert max(used.values()) <= GPUS_PER_NODE
        assert len(used) == -(-sum(gpus) // GPUS_PER_NODE)

    def test_what_cannot_fit_is_known_beforehand(self) -> None:
        assert Plan(workloads=4000, nodes=1438).fits
        assert not Plan(workloads=4000, nodes=1437).fits


class TestSeen:
    def test_only_the_first_time_bound_counts_and_only_of_those_created(self) -> None:
        seen = Seen()
        seen.created("a", at_s=10.0)
        seen.bound("a", "node-1")
        first_s = seen.bound_s["a"]
        seen.bound("a", "node-2")
        seen.bound("stranger", "node-3")

        assert (seen.placed, seen.nodes["a"], seen.bound_s["a"]) == (1, "node-1", first_s)

    def test_a_pod_may_be_seen_bound_before_its_creation_is_told(self) -> None:
        seen = Seen()
        seen.bound("a", "node-1")
        seen.created("a", at_s=seen.bound_s["a"] - 2.0)

        assert seen.wall_s == pytest.approx(2.0)
        assert seen.latency_ms().p99 == pytest.approx(2_000, abs=1)
        assert seen.bound_at_s() == (pytest.approx(2.0),)

    def test_the_longest_wait_without_any_bound_is_kept(self) -> None:
        seen = Seen()
        seen.created("a", at_s=time.monotonic() - 30.0)
        for key in ("a", "b"):
            seen.bound(key, "node-1")

        assert seen.longest_gap_s == pytest.approx(30.0, abs=1.0)

    def test_what_runs_is_counted_once_until_the_last_one(self) -> None:
        seen = Seen()
        for key in ("a", "b", "stranger"):
            seen.runs(key)
        seen.created("a", at_s=seen.runs_s["a"] - 4.0)
        seen.created("b", at_s=seen.runs_s["b"] - 3.0)
        seen.created("c", at_s=seen.runs_s["b"] - 2.0)
        seen.runs("a")

        assert (seen.running, seen.running_wall_s) == (2, pytest.approx(4.0, abs=0.1))

    def test_nothing_bound_takes_no_time(self) -> None:
        seen = Seen()
        seen.created("a")

        assert (seen.wall_s, seen.latency_ms().p99) == (0.0, 0.0)


class TestTopology:
    @given(held=st.lists(st.sampled_from([1, 2, 4, 8]), max_size=8).filter(lambda held: sum(held) <= GPUS_PER_NODE))
    def test_zones_together_have_free_what_no_pod_holds(self, held: list[int]) -> None:
        free = free_by_zone(held)

        assert sum(free) == GPUS_PER_NODE - sum(held)
        assert all(0 <= zone <= PER_ZONE for zone in free)

    def test_pods_share_the_zone_that_is_fullest(self) -> None:
        assert sorted(free_by_zone([1, 2])) == [1, 4]

    def test_an_object_names_the_version_that_it_replaces(self) -> None:
        assert topology("n", (4, 4), version="7")["metadata"] == {"name": "n", "resourceVersion": "7"}
        assert len(topology("n", (4,) * ZONES)["zones"]) == ZONES


class TestVerdict:
    def test_muster_is_compared_with_the_better_profile(self) -> None:
        (found,) = verdicts(
            [
                result(Contender.DEFAULT, placed=90, binds_per_s=90.0),
                result(Contender.BIN_PACKING, binds_per_s=80.0, p99=3_000.0),
                result(Contender.MUSTER, binds_per_s=160.0, p99=900.0),
            ]
        )

        assert (found.binds_ratio, found.p99_ratio, found.reached) == (2.0, 0.3, True)

    def test_twice_as_fast_with_a_long_tail_is_not_enough(self) -> None:
        (found,) = verdicts(
            [result(Contender.BIN_PACKING, p99=3_000.0), result(Contender.MUSTER, binds_per_s=200.0, p99=2_000.0)]
        )

        assert found.reached is False

    def test_near_the_floor_is_enough_whatever_others_do(self) -> None:
        (found,) = verdicts(
            [
                result(Contender.FLOOR, binds_per_s=200.0),
                result(Contender.BIN_PACKING, binds_per_s=90.0),
                result(Contender.MUSTER, binds_per_s=140.0),
            ]
        )

        assert (found.floor_share, found.reached) == (0.7, True)

    def test_pods_that_run_are_compared_with_the_floors_beside_it(self) -> None:
        floor, ours = result(Contender.FLOOR, binds_per_s=200.0), result(Contender.MUSTER, binds_per_s=100.0)
        late = replace(floor, running=100, running_wall_s=1.0)

        (found,) = verdicts([late, replace(ours, running=100, running_wall_s=1.25)])

        assert (found.floor_share, found.running_share, found.reached) == (0.5, 0.8, False)

    def test_speed_does_not_make_up_for_what_is_stranded(self) -> None:
        (found,) = verdicts(
            [result(Contender.FLOOR, binds_per_s=100.0), result(Contender.MUSTER, placed=99, binds_per_s=100.0)]
        )

        assert found.reached is False

    def test_alone_there_is_nothing_to_say(self) -> None:
        (found,) = verdicts([result(Contender.MUSTER_CLAIMS)])

        assert found.reached is None


class TestReport:
    def test_processes_of_the_plane_are_told_from_the_contenders_own(self) -> None:
        found = result(Contender.OLD_STACK)

        assert (found.own_peak_mib, found.own_cpu_s) == (100.0, 3.0)

    def test_the_document_is_json_and_has_every_figure(self) -> None:
        plan = Plan(workloads=100, nodes=50, contenders=(Contender.FLOOR, Contender.MUSTER))
        results = (result(Contender.FLOOR), result(Contender.MUSTER))

        found = json.loads(json.dumps(document(Comparison(plan, this_machine(), results))))

        assert [one["contender"] for one in found["contenders"]] == ["floor", "muster"]
        assert found["contenders"][1]["crowds"][0]["lists"] == 100
        assert found["verdicts"][0]["floor_share"] == 1.0

    def test_what_runs_is_told_beside_what_is_bound(self) -> None:
        late = replace(result(Contender.FLOOR), running=90, running_wall_s=4.5)

        assert (late.document()["binds_per_s"], late.document()["running_per_s"]) == (50.0, 20.0)
        assert dict(rows([late]))["running per second"] == "20/s"

    def test_a_contender_that_ran_out_of_time_says_so(self) -> None:
        late = result(Contender.CLAIMS, placed=60)
        cells = dict(rows([Result(**{name: getattr(late, name) for name in late.__slots__} | {"finished": False})]))

        assert cells["stranded"] == "40 (time limit)"

    def test_the_chart_is_a_picture(self) -> None:
        assert chart([result(contender) for contender in Contender])[1:4] == b"PNG"
