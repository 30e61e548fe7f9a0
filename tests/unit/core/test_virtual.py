"""Virtual time: what is decided is folded at once, time goes from wake-up to wake-up, and nothing goes on for ever."""

from collections.abc import Callable, Iterator

import pytest

from muster.core import NS_PER_S, Core, Draft, Fact, Instant, after
from muster.core.virtual import DraftInvalidError, NeverSettlesError, VirtualCluster, recover
from muster.schemas.facts.node import CordonRequested, GrantState, NodeJoined, Released
from muster.schemas.registry import StreamRole

START = Instant(1_000 * NS_PER_S)
JOINED = NodeJoined(cpu_milli=1000, memory_mib=1024)


class Releasing:
    """Releases every node that joined, so long after it joined."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.joined: dict[str, Fact] = {}
        self.released: set[str] = set()
        self.asked = 0

    def apply(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeJoined):
            self.joined[fact.subject_id] = fact
        elif isinstance(fact.payload, Released | GrantState):
            self.released.add(fact.subject_id)

    def waiting(self) -> dict[str, Fact]:
        return {name: fact for name, fact in self.joined.items() if name not in self.released}

    def decide(self, now: Instant) -> list[Draft]:
        self.asked += 1
        return [
            Draft("node", name, "released", Released(), causes=(fact.id,))
            for name, fact in self.waiting().items()
            if after(fact.time, self.delay_s) <= now
        ]

    def next_wakeup(self) -> Instant | None:
        return min((after(fact.time, self.delay_s) for fact in self.waiting().values()), default=None)

    def snapshot(self) -> Iterator[Draft]:
        for name in sorted(self.released):
            yield Draft("node", name, "state-recorded", GrantState(released=True))


class Joining:
    """Lets a node join for every node that was released, up to so many."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.joined = 0
        self.wanted = 0

    def apply(self, fact: Fact) -> None:
        self.joined += isinstance(fact.payload, NodeJoined)
        self.wanted += isinstance(fact.payload, Released)

    def decide(self, now: Instant) -> list[Draft]:
        wanted = min(self.nodes, self.wanted + 1)
        return [Draft("node", f"n{number}", "joined", JOINED) for number in range(self.joined, wanted)]

    def next_wakeup(self) -> Instant | None:
        return None

    def snapshot(self) -> Iterator[Draft]:
        return iter(())


class Awake(Joining):
    """Has nothing to decide and always wants to be woken at once."""

    def next_wakeup(self) -> Instant | None:
        return START


def cluster(*, delay_s: float = 0.0, nodes: int = 0, **options: object) -> VirtualCluster:
    cores: dict[str, Core] = {"scheduler": Releasing(delay_s), "agent": Joining(nodes)}
    return VirtualCluster("atlas", start=START, cores=cores, **options)  # type: ignore[arg-type]


def join(of: VirtualCluster, name: str) -> Fact:
    return of.write("agent", "node", name, "joined", JOINED, trace="t")


def names(of: VirtualCluster) -> list[tuple[str, str]]:
    return [(fact.subject_id, fact.name) for fact in of.log]


def test_a_fact_has_an_id_a_sequence_the_time_and_its_causes_and_every_core_has_folded_it() -> None:
    one = cluster(delay_s=5)
    first = join(one, "a")
    one.now = after(START, 5)
    second = one.append("scheduler", Draft("node", "a", "released", Released(), causes=(first.id,), trace="t"))
    assert first == Fact("f1", 1, START, "atlas", "agent", "node", "a", "joined", (), "t", JOINED)
    assert second == Fact(
        "f2", 2, after(START, 5), "atlas", "scheduler", "node", "a", "released", ("f1",), "t", Released()
    )
    assert one.log == [first, second]
    assert one.cores["scheduler"].next_wakeup() is None


def test_who_watches_is_told_of_a_fact_once_all_cores_folded_it() -> None:
    told = list[tuple[str, int]]()
    one = cluster()
    one.watch = lambda fact: told.append((fact.id, one.cores["agent"].joined))  # type: ignore[attr-defined]
    join(one, "a")
    assert told == [("f1", 1)]


def test_a_log_that_is_not_kept_is_counted() -> None:
    one = cluster(nodes=3, keeps_log=False)
    one.settle()
    assert (one.log, one.seq) == ([], 6)


def test_the_federations_facts_are_about_the_cluster_that_their_draft_names() -> None:
    fed = VirtualCluster("", start=START, role=StreamRole.FED)
    fact = fed.append(
        "federation",
        Draft("node", "a", "cordon-forwarded", CordonRequested(principal="ann"), cluster="atlas"),
        fact_id="x",
    )
    assert (fact.cluster, fact.id) == ("atlas", "x")


@pytest.mark.parametrize(
    ("writer", "draft", "problem"),
    [
        ("health", Draft("node", "a", "joined", JOINED), "not the writer"),
        ("agent", Draft("node", "a", "jumped", JOINED), "not the writer"),
        ("agent", Draft("node", "a", "joined", Released()), "Released, not NodeJoined"),
    ],
)
def test_what_its_writer_may_not_write_is_refused_and_nothing_is_appended(
    writer: str, draft: Draft, problem: str
) -> None:
    one = cluster()
    with pytest.raises(DraftInvalidError, match=problem) as raised:
        one.append(writer, draft)
    assert (raised.value.writer, raised.value.draft, one.log) == (writer, draft, [])


def test_cores_decide_in_turn_until_none_decides_anything_more() -> None:
    one = cluster(nodes=3)
    facts = one.settle()
    assert names(one) == [(f"n{number}", name) for number in range(3) for name in ("joined", "released")]
    assert facts == one.log
    assert one.settle() == []


def test_one_step_is_one_decision_of_each_core_that_has_news() -> None:
    one = cluster(nodes=2)
    scheduler = one.cores["scheduler"]
    assert isinstance(scheduler, Releasing)
    one.settle()
    asked = scheduler.asked
    assert one.step() == []
    assert scheduler.asked == asked
    assert one.step(ask_all=True) == []
    assert scheduler.asked == asked + 1
    join(one, "late")
    assert [fact.name for fact in one.step()] == ["released"]


def test_one_core_is_asked_alone() -> None:
    one = cluster(nodes=1)
    assert [fact.writer for fact in one.decide_once("agent")] == ["agent"]
    assert names(one) == [("n0", "joined")]


def test_one_core_settles_alone_and_what_is_left_out_is_decided_later() -> None:
    one = cluster(nodes=2)
    assert [fact.name for fact in one.settle_core("agent")] == ["joined"]
    join(one, "b")
    facts = one.settle_core("scheduler", only=lambda draft: draft.subject_id == "b")
    assert [(fact.subject_id, fact.name) for fact in facts] == [("b", "released")]
    assert [(fact.subject_id, fact.name) for fact in one.step()] == [("n0", "released")]


def test_a_core_that_decides_again_and_again_is_named() -> None:
    one = cluster(nodes=1_000, steps_max=20)
    with pytest.raises(NeverSettlesError, match=r"^(scheduler|agent): decides node n\d+ .* after 20 steps") as raised:
        one.settle()
    assert raised.value.writer in one.cores
    assert one.seq <= 2 * 20


def test_a_core_that_asks_to_be_woken_in_the_past_for_ever_is_named() -> None:
    cores: dict[str, Core] = {"scheduler": Releasing(), "agent": Awake(0)}
    one = VirtualCluster("atlas", start=START, cores=cores, steps_max=20)
    with pytest.raises(NeverSettlesError, match=r"^agent: has nothing to decide and requests a wake-up"):
        one.advance(3600)


def test_time_goes_from_wake_up_to_wake_up_and_stays_where_it_was_told_to() -> None:
    one = cluster(delay_s=10, nodes=3)
    one.advance(25)
    assert [(fact.name, (fact.time - START) / NS_PER_S) for fact in one.log] == [
        ("joined", 0), ("released", 10), ("joined", 10), ("released", 20), ("joined", 20)
    ]  # fmt: skip
    assert one.now == after(START, 25)


def test_what_comes_from_outside_comes_at_its_moment_and_in_its_order() -> None:
    one, done = cluster(), list[str]()
    one.at(after(START, 20), lambda: done.append("late"))
    one.at(after(START, 10), lambda: done.append("first"))
    one.at(after(START, 10), lambda: done.append("second"))
    arrivals = [(after(START, second), _noting(done, f"arrival-{second}")) for second in (10, 12)]
    seen = [(moment - START) // NS_PER_S for moment in one.moments(after(START, 15), arrivals=arrivals)]
    assert done == ["arrival-10", "first", "second", "arrival-12"]
    assert seen == [0, 10, 12]
    one.advance(10)
    assert done[-1] == "late"


def _noting(done: list[str], name: str) -> Callable[[], None]:
    return lambda: done.append(name)


def test_what_is_posted_for_the_present_moment_happens_in_it_and_not_for_ever() -> None:
    one = cluster(delay_s=10, steps_max=20)
    one.watch = lambda fact: one.at(one.now, lambda: join(one, "b")) if fact.name == "released" else None
    join(one, "a")
    one.advance(10)
    assert [(fact.subject_id, fact.name, fact.time) for fact in one.log[1:]] == [
        ("a", "released", after(START, 10)), ("b", "joined", after(START, 10))
    ]  # fmt: skip

    def again() -> None:
        one.at(one.now, again)

    again()
    with pytest.raises(NeverSettlesError, match=r"^outside: actions post others"):
        one.advance(10)


def test_moments_are_rounded_up_to_ticks() -> None:
    one = cluster(delay_s=7, tick_ns=5 * NS_PER_S)
    one.at(after(START, 1), lambda: join(one, "a"))
    one.advance(60)
    assert [fact.time for fact in one.log] == [after(START, 5), after(START, 15)]


def test_a_core_recovers_from_a_snapshot_and_what_follows_it_in_the_log() -> None:
    one = cluster()
    join(one, "a")
    one.settle()
    snapshot = one.snapshot()
    assert [(fact.writer, fact.subject_id, fact.seq) for fact in snapshot] == [("scheduler", "a", 2)]
    join(one, "b")
    recovered = recover(Releasing(), snapshot, one.log)
    assert recovered.released == {"a"}
    assert list(recovered.joined) == ["b"], "what the snapshot covers is not folded again"
    assert list(recover(Releasing(), (), one.log).joined) == ["a", "b"]


def test_a_core_that_takes_anothers_place_is_asked() -> None:
    one = cluster()
    one.settle()
    one.replace("agent", recover(Joining(1), (), one.log))
    assert [fact.name for fact in one.step()] == ["joined"]


def test_the_same_input_gives_the_same_log() -> None:
    logs = []
    for _ in range(2):
        one = cluster(delay_s=3, nodes=5)
        one.at(after(START, 4), lambda of=one: join(of, "late"))
        one.advance(60)
        logs.append(one.log)
    assert logs[0] == logs[1]
    assert [fact.seq for fact in logs[0]] == list(range(1, len(logs[0]) + 1))
