"""A dashboard that joins and loses slices, whoever leads, ends up with what the log says."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.observe.dashboards import EVERY_AUDIENCE, Dashboard
from kit.projector import Story, a_job
from muster.core.fact import Fact
from muster.projector.core import ProjectorCore, chains
from muster.projector.core.chains import PULSE_S, LiveChains, Slice
from muster.projector.core.changes import Changes
from muster.schemas.live import PUBLIC_AUDIENCE, SLICE_BYTES_MAX, LiveSlice, Snapshot
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView

CLUSTER = "atlas"


def heard(slices: list[Slice]) -> list[LiveSlice]:
    return [LiveSlice.model_validate_json(one.body) for one in slices]


@dataclass
class Store:
    """The read model, as far as a snapshot needs it."""

    seq: int = 0
    jobs: dict[str, JobView] = field(default_factory=dict)
    tables: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"nodes": {}, "queues": {}, "reservations": {}})

    def keep(self, changes: Changes, *, seq: int) -> None:
        self.seq = seq
        self.jobs.update({job.id: JobView.model_validate_json(job.body) for job in changes.jobs})
        for name, table in self.tables.items():
            for row, body in getattr(changes, name).items():
                if body is None:
                    table.pop(row, None)
                else:
                    table[row] = body

    def snapshot(self) -> Snapshot:
        return Snapshot(
            seqs={CLUSTER: {PUBLIC_AUDIENCE: self.seq, EVERY_AUDIENCE: self.seq}},
            at=1,
            jobs=tuple(job for job in self.jobs.values() if not job.phase.is_terminal),
            nodes=tuple(map(NodeView.model_validate_json, self.tables["nodes"].values())),
            queues=tuple(map(QueueView.model_validate_json, self.tables["queues"].values())),
            reservations=tuple(map(ReservationView.model_validate_json, self.tables["reservations"].values())),
        )


@dataclass
class Harness:
    """A log, the projector that leads, the read model, and time."""

    facts: list[Fact]
    folded: int = 0
    now_s: float = 0.0
    store: Store = field(default_factory=Store)
    core: ProjectorCore = field(default_factory=lambda: ProjectorCore(CLUSTER))
    chains: LiveChains = field(default_factory=lambda: LiveChains(CLUSTER, seq=0))

    def __post_init__(self) -> None:
        self.lead()

    def lead(self) -> None:
        """Another projector takes the lead, having folded the same facts."""
        self.core = ProjectorCore(CLUSTER)
        for fact in self.facts[: self.folded]:
            self.core.apply(fact)
        self.core.watch(on=True)
        self.chains = LiveChains(CLUSTER, seq=self.core.last_seq, team_seqs=self.core.team_seqs.items())
        changes = self.core.take_all(rows_after=0)
        self.store.keep(changes, seq=max(self.store.seq, self.core.last_seq))

    def fold(self, count: int = 1) -> None:
        for fact in self.facts[self.folded : self.folded + count]:
            self.core.apply(fact)
        self.folded = min(len(self.facts), self.folded + count)

    def write(self) -> None:
        """Bring the read model up to the fold."""
        seq = self.core.last_seq
        self.store.keep(self.core.take(facts_after=self.store.seq), seq=seq)

    def tell(self) -> list[LiveSlice]:
        self.now_s += 0.05
        slices = self.chains.advance(self.core.take_shown(after=self.chains.seq), now_s=self.now_s)
        return heard([*slices, *self.chains.pulses(now_s=self.now_s)])

    def pulse(self) -> list[LiveSlice]:
        self.now_s += PULSE_S
        return self.tell()


def life(*, jobs: int) -> list[Fact]:
    story = Story()
    story.node("n1")
    story.node("n2")
    for name in ("blue", "red"):
        story.queue(name)
    for number in range(jobs):
        job = a_job(number, team="blue" if number % 2 else "red")
        story.routed(job)
        story.queued(job)
        if number % 4:
            story.placed(job, f"n{1 + number % 2}")
            story.running(job)
        if number % 4 > 2:
            story.ended(job)
    return story.facts


def same(dashboard: Dashboard, core: ProjectorCore) -> None:
    """The dashboard shows what the log says."""
    wanted = Store()
    wanted.keep(core.take_all(rows_after=0), seq=core.last_seq)
    snapshot = wanted.snapshot()
    assert {id_: job for id_, job in dashboard.jobs.items() if not job.phase.is_terminal} == {
        job.id: job for job in snapshot.jobs
    }
    assert dashboard.nodes == {node.name: node for node in snapshot.nodes}
    assert dashboard.queues == {queue.name: queue for queue in snapshot.queues}


@pytest.fixture(params=["bytes", "facts"])
def splitting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices may have little in them, so that every moment takes several."""
    monkeypatch.setattr(chains, "SLICE_BYTES_MAX", 2_500 if request.param == "bytes" else SLICE_BYTES_MAX)
    monkeypatch.setattr(chains, "SLICE_FACTS_MAX", 1_000 if request.param == "bytes" else 5)


@pytest.mark.usefixtures("splitting")
@pytest.mark.parametrize("killed", [False, True])
def test_a_moment_that_came_only_in_part_is_not_taken_for_whole(killed: bool) -> None:
    """The connection broke between two parts, or the projector was killed; and then nothing happens any more."""
    parts = len(_public(_joined()[0].tell()))
    assert parts > 3
    for heard_parts in range(parts):
        harness, dashboard = _joined()
        dashboard.hear_all(_public(harness.tell())[:heard_parts])
        if killed:
            harness.lead()
        for _ in range(4):
            dashboard.hear_all(_public(harness.pulse()))
            harness.write()
            if dashboard.wants_snapshot:
                dashboard.begin(harness.store.snapshot())
        assert dashboard.gaps == 1
        same(dashboard, harness.core)


@pytest.mark.usefixtures("splitting")
def test_a_moment_in_many_parts_is_taken_in_without_a_gap() -> None:
    harness, dashboard = _joined()
    dashboard.hear_all(harness.tell())
    dashboard.hear_all(harness.pulse())
    assert dashboard.gaps == 0
    assert sorted(seq for _, seq in dashboard.facts) == list(range(11, len(harness.facts) + 1))
    same(dashboard, harness.core)


def _joined() -> tuple[Harness, Dashboard]:
    """A dashboard that has joined a harness where much has happened since."""
    harness, dashboard = Harness(life(jobs=8)), Dashboard()
    harness.fold(10)
    harness.write()
    dashboard.begin(harness.store.snapshot())
    harness.fold(1_000)
    return harness, dashboard


def _public(slices: list[LiveSlice]) -> list[LiveSlice]:
    """What a dashboard hears that acts for no team."""
    return [one for one in slices if one.audience == PUBLIC_AUDIENCE]


STEPS = st.lists(
    st.sampled_from(["fold", "fold", "fold", "many", "tell", "tell", "lose", "cut", "write", "look", "lead", "pulse"]),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, is_split=st.booleans())
def test_whatever_is_lost_the_dashboard_ends_up_with_what_the_log_says(steps: list[str], is_split: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if is_split:
            patch.setattr(chains, "SLICE_FACTS_MAX", 2)
        _live_through(steps)


def _live_through(steps: list[str]) -> None:
    harness, dashboard = Harness(life(jobs=8)), Dashboard()
    told: dict[int, str] = {}
    for step in steps:
        match step:
            case "fold":
                harness.fold()
            case "many":
                harness.fold(9)
            case "tell":
                dashboard.hear_all(harness.tell())
            case "pulse":
                dashboard.hear_all(harness.pulse())
            case "lose" | "cut":
                slices = harness.tell()
                dashboard.hear_all(slices[: len(slices) // 2 if step == "cut" else 0])
            case "write":
                harness.write()
            case "look" if dashboard.wants_snapshot:
                dashboard.begin(harness.store.snapshot())
            case "lead":
                harness.lead()
        told |= {seq: fact.name for (_, seq), fact in dashboard.facts.items()}
    harness.fold(1_000)
    for _ in range(3):
        dashboard.hear_all(harness.pulse())
        harness.write()
        if dashboard.wants_snapshot:
            dashboard.begin(harness.store.snapshot())
    assert not dashboard.wants_snapshot
    same(dashboard, harness.core)
    assert all(harness.facts[seq - 1].name == name for seq, name in told.items())


def test_nothing_is_missed_and_nobody_asks_twice_while_nothing_is_lost() -> None:
    harness, dashboard = Harness(life(jobs=8)), Dashboard()
    harness.fold(10)
    harness.write()
    dashboard.begin(harness.store.snapshot())
    while harness.folded < len(harness.facts):
        harness.fold(3)
        dashboard.hear_all(harness.tell())
    assert dashboard.gaps == 0
    assert sorted(seq for _, seq in dashboard.facts) == list(range(11, len(harness.facts) + 1))
    same(dashboard, harness.core)


def test_a_slice_that_was_lost_shows_with_the_next_one() -> None:
    harness, dashboard = Harness(life(jobs=8)), Dashboard()
    harness.fold(10)
    harness.write()
    dashboard.begin(harness.store.snapshot())
    harness.fold(5)
    harness.tell()
    harness.fold(5)
    dashboard.hear_all(harness.tell())
    assert (dashboard.gaps, dashboard.wants_snapshot) == (1, True)


def test_the_loss_of_the_last_slice_shows_within_a_second() -> None:
    harness, dashboard = Harness(life(jobs=8)), Dashboard()
    harness.fold(10)
    harness.write()
    dashboard.begin(harness.store.snapshot())
    harness.fold(5)
    harness.tell()
    dashboard.hear_all(harness.pulse())
    assert dashboard.gaps == 1


def test_a_new_leader_is_heard_at_once_and_is_in_no_hurry() -> None:
    """Whoever missed nothing goes on; whoever did, learns of it by the first pulse."""
    harness = Harness(life(jobs=8))
    harness.fold(10)
    harness.write()
    up_to_date, behind = Dashboard(), Dashboard()
    for dashboard in (up_to_date, behind):
        dashboard.begin(harness.store.snapshot())
    harness.fold(10)
    up_to_date.hear_all(harness.tell())
    harness.lead()
    first = harness.tell()
    assert {one.audience for one in first} == {PUBLIC_AUDIENCE, "blue", "red"}
    for dashboard in (up_to_date, behind):
        dashboard.hear_all(first)
    assert (up_to_date.gaps, behind.gaps) == (0, 1)


def test_a_snapshot_that_is_behind_the_slices_is_asked_for_again() -> None:
    """The read model may lag; the slices that came since wait for one that does not."""
    harness, dashboard = Harness(life(jobs=8)), Dashboard()
    harness.fold(10)
    harness.write()
    harness.fold(5)
    harness.tell()  # before anybody listened
    harness.fold(5)
    dashboard.hear_all(harness.tell())
    dashboard.begin(harness.store.snapshot())
    assert dashboard.wants_snapshot
    harness.write()
    dashboard.begin(harness.store.snapshot())
    assert not dashboard.wants_snapshot
    same(dashboard, harness.core)
