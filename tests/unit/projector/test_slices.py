"""What is in a slice: who sees which bodies, what fits, what is encoded how often."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.log import a_fact
from kit.projector import Story, a_job
from muster.core.fact import Fact
from muster.projector.core import FedProjectorCore, ProjectorCore
from muster.projector.core.chains import PULSE_S, PULSES_AFTER, LiveChains, Slice, redacted
from muster.projector.core.changes import Marks, ShownFact, ViewChanges
from muster.projector.core.projection import TEAMS_MAX
from muster.schemas.facts.node import NodeLeft, NodeLost
from muster.schemas.facts.queue import QueueSpec, QueueState
from muster.schemas.live import PUBLIC_AUDIENCE, SLICE_BYTES_MAX, SLICE_FACTS_MAX, LiveSlice
from muster.schemas.views import FactView, JobView

CLUSTER = "atlas"


def told(core: ProjectorCore | FedProjectorCore, chains: LiveChains, facts: list[Fact]) -> list[LiveSlice]:
    for fact in facts:
        core.apply(fact)
    slices = chains.advance(core.take_shown(after=chains.seq), now_s=0.0)
    return [LiveSlice.model_validate_json(one.body) for one in slices]


def watched(core: ProjectorCore | FedProjectorCore) -> tuple[ProjectorCore | FedProjectorCore, LiveChains]:
    core.watch(on=True)
    return core, LiveChains(CLUSTER, seq=core.last_seq, team_seqs=core.team_seqs.items())


def by_audience(slices: list[LiveSlice]) -> dict[str, LiveSlice]:
    return {one.audience: one for one in slices}


def test_everybody_sees_what_happened_and_its_team_alone_sees_what_was_said() -> None:
    story, job = Story(), a_job(1)
    story.node("n1")
    story.routed(job)
    heard = by_audience(told(*watched(ProjectorCore(CLUSTER)), story.facts))
    assert set(heard) == {PUBLIC_AUDIENCE, "blue"}
    public = {fact.name: fact.body for fact in heard[PUBLIC_AUDIENCE].facts}
    assert public["routed"] == ""
    assert "gpu_model" in public["joined"]
    (routed,) = heard["blue"].facts
    assert '"command"' in routed.body
    assert (heard["blue"].jobs, heard["blue"].nodes) == ((), ())


def test_what_serves_a_job_is_its_teams_as_well() -> None:
    core, chains = watched(ProjectorCore(CLUSTER))
    story, job = Story(), a_job(1)
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    story.routed(job.model_copy(update={"trace": trace}))
    node = a_fact("agent", "node", "n9", "lost", NodeLost(reason="for blue"), seq=2, trace=trace)
    heard = by_audience(told(core, chains, [*story.facts, node]))
    assert [fact.body for fact in heard[PUBLIC_AUDIENCE].facts] == ["", ""]
    assert "for blue" in heard["blue"].facts[1].body


def test_a_team_of_the_name_public_has_no_say_in_what_is_public() -> None:
    story = Story()
    story.routed(a_job(1, team=PUBLIC_AUDIENCE))
    (only,) = told(*watched(ProjectorCore(CLUSTER)), story.facts)
    assert [fact.body for fact in only.facts] == [""]


def test_the_federations_row_goes_when_the_job_has_ended() -> None:
    core, chains = watched(FedProjectorCore())
    story, job = Story("gateway"), a_job(1)
    story.submitted(job)
    first = by_audience(told(core, chains, story.facts))
    assert [row.id for row in first[PUBLIC_AUDIENCE].jobs] == [job.id]
    last = by_audience(told(core, chains, [story.came_back(job)]))
    assert last[PUBLIC_AUDIENCE].gone_jobs == (job.id,)
    assert last[PUBLIC_AUDIENCE].prev == first[PUBLIC_AUDIENCE].seq


def test_rows_that_were_taken_away_are_named() -> None:
    core, chains = watched(ProjectorCore(CLUSTER))
    story = Story()
    story.node("n1")
    told(core, chains, story.facts)
    (heard,) = told(core, chains, [story.add("node", "n1", "left", NodeLeft())])
    assert (heard.gone_nodes, heard.nodes) == (("n1",), ())


def test_facts_of_one_team_are_chained_by_their_own() -> None:
    core, chains = watched(ProjectorCore(CLUSTER))
    story = Story()
    heard = []
    for number in (1, 2, 3):
        team = "red" if number == 2 else "blue"
        heard += told(core, chains, [story.routed(a_job(number, team=team))])
    assert [(one.prev, one.seq) for one in heard if one.audience == "blue"] == [(0, 1), (1, 3)]
    assert [(one.prev, one.seq) for one in heard if one.audience == "red"] == [(0, 2)]
    assert [(one.prev, one.seq) for one in heard if one.audience == PUBLIC_AUDIENCE] == [(0, 1), (1, 2), (2, 3)]


def test_of_a_team_that_is_remembered_no_more_it_is_not_said_that_nothing_was_missed() -> None:
    core, chains = watched(ProjectorCore(CLUSTER))
    story = Story()
    for number in range(TEAMS_MAX + 1):
        story.routed(a_job(number, team=f"team-{number}"))
    told(core, chains, story.facts)
    (_, again) = told(core, chains, [story.routed(a_job(TEAMS_MAX + 2, team="team-0"))])
    assert again.prev >= 1


def test_what_was_recovered_from_a_checkpoint_is_not_taken_for_all_that_was() -> None:
    recovered = ProjectorCore(CLUSTER)
    state = QueueState(spec=QueueSpec(name="blue"))
    recovered.apply(a_fact("scheduler", "queue", "blue", "state-recorded", state, seq=50))
    later = replace(Story().routed(a_job(1)), seq=60)
    heard = by_audience(told(*watched(recovered), [later]))
    assert heard["blue"].prev == heard[PUBLIC_AUDIENCE].prev == 50


def test_what_a_leader_did_not_watch_is_not_told() -> None:
    """A follower keeps nothing for the view, and a new leader begins where it stands."""
    core, story = ProjectorCore(CLUSTER), Story()
    story.node("n1")
    for fact in story.facts:
        core.apply(fact)
    _, chains = watched(core)
    (heard,) = told(core, chains, [story.routed(a_job(1, team=PUBLIC_AUDIENCE))])
    assert (heard.nodes, heard.prev, heard.seq) == ((), 2, 3)


def shown_fact(seq: int, size: int, *, team: str = "") -> ShownFact:
    view = FactView(
        id=f"f{seq}", seq=seq, time=seq, stream="LOG_atlas", cluster=CLUSTER, writer="w", kind="node",
        subject_id="n", name="x", body="b" * size,
    )  # fmt: skip
    return ShownFact(seq, "J" if team else "", team, view.model_dump_json().encode(), bool(team), seq, seq - 1)


def parsed(slices: list[Slice]) -> list[LiveSlice]:
    assert all(len(one.body) <= 1024 * 1024 for one in slices)
    return [LiveSlice.model_validate_json(one.body) for one in slices]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([10, 1_000, 200_000, SLICE_BYTES_MAX - 1_000, SLICE_BYTES_MAX + 1]), max_size=12),
    rows=st.lists(st.sampled_from([10, 300_000, SLICE_BYTES_MAX]), max_size=6),
)
@example(sizes=[], rows=[SLICE_BYTES_MAX, SLICE_BYTES_MAX])
def test_however_much_there_is_it_goes_in_messages_that_fit_and_hold_together(
    sizes: list[int], rows: list[int]
) -> None:
    facts = tuple(shown_fact(seq, size) for seq, size in enumerate(sizes, start=11))
    nodes = {f"n{number}": b'{"name":"n%d","cluster":"%b"}' % (number, b"c" * (size - 40)) if size > 40
             else b'{"name":"n%d","cluster":""}' % number for number, size in enumerate(rows)}  # fmt: skip
    seq = 11 + len(sizes)  # what was folded last is shown to nobody
    chains = LiveChains(CLUSTER, seq=10)
    heard = parsed(chains.advance(ViewChanges(prev=10, seq=seq, at=seq, nodes=nodes, facts=facts), now_s=0.0))
    assert [fact.seq for one in heard for fact in one.facts] == [fact.seq for fact in facts]
    assert {node.name for one in heard for node in one.nodes} == set(nodes)
    mine = 10
    for one in heard:
        assert one.prev == mine
        assert mine <= one.seq <= seq
        assert all(mine < fact.seq <= one.seq for fact in one.facts)
        assert not one.nodes or one.seq == seq
        mine = one.seq
    assert mine == seq
    whole = sum(sizes) + sum(map(len, nodes.values())) < SLICE_BYTES_MAX // 2
    assert len(heard) == 1 or not whole


def test_everybody_hears_once_a_second_where_they_stand_and_a_quiet_team_after_a_while_no_more() -> None:
    chains = LiveChains(CLUSTER, seq=0)
    chains.advance(ViewChanges(0, 7, 1, facts=(shown_fact(5, 1, team="blue"),)), now_s=0.0)
    assert chains.pulses(now_s=PULSE_S / 2) == []
    rounds = [parsed(chains.pulses(now_s=second * PULSE_S)) for second in range(1, 3 * PULSES_AFTER)]
    public = [one for pulses in rounds for one in pulses if one.audience == PUBLIC_AUDIENCE]
    blue = [one for pulses in rounds for one in pulses if one.audience == "blue"]
    assert {(one.prev, one.seq) for one in public} == {(7, 7)}
    assert {(one.prev, one.seq) for one in blue} == {(5, 5)}
    assert (len(public), len(blue)) == (len(rounds), PULSES_AFTER)


def test_many_small_facts_go_in_several_slices() -> None:
    facts = tuple(shown_fact(seq, 1, team="blue") for seq in range(1, SLICE_FACTS_MAX + 2))
    heard = parsed(LiveChains(CLUSTER, seq=0).advance(ViewChanges(0, len(facts), 1, facts=facts), now_s=0.0))
    assert [(one.prev, one.seq) for one in heard if one.audience == "blue"] == [
        (0, SLICE_FACTS_MAX),
        (SLICE_FACTS_MAX, SLICE_FACTS_MAX + 1),
    ]
    assert [len(one.facts) for one in heard if one.audience == PUBLIC_AUDIENCE][:2] == [SLICE_FACTS_MAX, 1]


def test_a_fact_that_is_too_long_comes_without_its_body() -> None:
    (heard,) = parsed(
        LiveChains(CLUSTER, seq=0).advance(ViewChanges(0, 1, 1, facts=(shown_fact(1, SLICE_BYTES_MAX),)), now_s=0.0)
    )
    assert [fact.body for fact in heard.facts] == [""]


def test_a_job_of_too_many_places_comes_without_them() -> None:
    slots = tuple(
        {"group": 0, "replica": number, "node": f"node-{number:06d}", "devices": [0], "gpu_milli": 1000}
        for number in range(16_000)
    )
    row = JobView.model_validate({"id": "A" * 26, "name": "a", "team": "blue", "principal": "p", "queue": "q",
                                  "phase": "running", "slots": slots})  # fmt: skip
    shown = ViewChanges(0, 1, 1, jobs={row.id: row.model_dump_json().encode()})
    (heard,) = parsed(LiveChains(CLUSTER, seq=0).advance(shown, now_s=0.0))
    assert [(job.phase, job.slots) for job in heard.jobs] == [("running", ())]


def test_a_row_that_nothing_can_be_taken_from_is_left_out_and_the_rest_is_told() -> None:
    rows = {"long": b'{"name":"%b","cluster":"a"}' % (b"n" * SLICE_BYTES_MAX), "short": b'{"name":"s","cluster":"a"}'}
    (heard,) = parsed(LiveChains(CLUSTER, seq=0).advance(ViewChanges(0, 1, 1, queues=rows), now_s=0.0))
    assert [queue.name for queue in heard.queues] == ["s"]


@given(body=st.text())
def test_a_body_is_cut_off_whatever_it_says(body: str) -> None:
    view = FactView(
        id="f", seq=1, time=1, stream="s", cluster=CLUSTER, writer="w", kind="job", subject_id="n", name="x",
        trace=',"body":"', body=body + ',"body":"' + body,
    )  # fmt: skip
    fact = ShownFact(1, "n", "blue", view.model_dump_json().encode())
    assert FactView.model_validate_json(redacted(fact)) == view.model_copy(update={"body": ""})


def test_a_row_is_encoded_once_for_both_that_take_it() -> None:
    encoded: list[str] = []

    def encode(name: str) -> bytes:
        encoded.append(name)
        return name.encode()

    marks = Marks(encode)
    marks.watch(on=True)
    for first, second in (("store", "view"), ("view", "store")):
        marks.touch("a")
        for taker in (first, second):
            taken = marks.take_stored() if taker == "store" else marks.take_shown()
            assert taken == {"a": b"a"}
    assert encoded == ["a", "a"]


def test_a_row_that_changed_between_its_takers_is_given_as_it_is_to_each() -> None:
    now = b"1"
    marks = Marks(lambda _: now)
    marks.watch(on=True)
    marks.touch("a")
    assert marks.take_shown() == {"a": b"1"}
    now = b"2"
    marks.touch("a")
    assert marks.take_stored() == {"a": b"2"}
    assert marks.take_shown() == {"a": b"2"}
    assert marks.take_stored() == marks.take_shown() == {}
