"""A job's facts as a tree: what led to what, and how long it took."""

from hypothesis import given
from hypothesis import strategies as st

from muster.cli.tables import trace_lines
from muster.cli.trace_tree import JobTrace, build
from muster.schemas.views import FactView

TRACE = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


def fact(
    name: str, at_s: float, writer: str, *causes: str, stream: str = "LOG_local", about: tuple[str, str] = ("job", "J")
) -> FactView:
    kind, subject_id = about
    return FactView(
        id=name, seq=int(at_s * 1000), time=int(at_s * 1e9), stream=stream, cluster="local", writer=writer, kind=kind,
        subject_id=subject_id, name=name, causes=causes, trace=TRACE,
    )  # fmt: skip


WAY = [
    fact("submitted", 1.0, "gateway", stream="FED"),
    fact("routed", 1.1, "federation", "submitted", stream="FED"),
    fact("routed", 1.15, "federation", "submitted"),
    fact("queued", 1.2, "scheduler", "routed"),
    fact("placed", 1.25, "scheduler", "queued", "node-released"),
    fact("pods-started", 2.0, "agent", "placed"),
    fact("running", 2.1, "scheduler", "pods-started"),
    fact("pods-exited", 7.0, "agent", "placed"),
    fact("succeeded", 7.5, "scheduler", "pods-exited"),
]


def drawn(trace: JobTrace) -> list[tuple[int, str]]:
    return [(span.depth, span.name) for span in trace.spans]


def test_submission_is_the_root_and_each_fact_hangs_under_its_cause() -> None:
    assert drawn(build("J", WAY)) == [
        (0, "submitted"), (1, "routed"), (2, "queued"), (3, "placed"),
        (4, "pods-started"), (5, "running"), (4, "pods-exited"), (5, "succeeded"),
    ]  # fmt: skip


def test_every_service_crossed_is_told_in_order() -> None:
    assert build("J", WAY).services == ("gateway", "federation", "scheduler", "agent")


def test_a_fact_sourced_into_a_second_stream_is_one_fact() -> None:
    routed = next(span for span in build("J", WAY).spans if span.name == "routed")
    assert routed.streams == ("FED", "LOG_local")


def test_durations_are_from_the_cause_and_from_submission() -> None:
    trace = build("J", WAY)
    exited = next(span for span in trace.spans if span.name == "pods-exited")
    assert (exited.after_parent_s, exited.since_start_s) == (5.75, 6.0)
    assert (trace.total_s, trace.finished) == (6.5, True)


def test_of_several_causes_the_newest_is_the_parent_and_the_others_are_links() -> None:
    requeued = fact("requeued", 8.0, "scheduler", "pods-exited", "queued")
    span = next(span for span in build("J", [*WAY, requeued]).spans if span.name == "requeued")
    assert (span.parent, span.links) == ("pods-exited", ("queued",))


def test_causes_outside_the_job_stay_as_links() -> None:
    placed = next(span for span in build("J", WAY).spans if span.name == "placed")
    assert placed.links == ("node-released",)


def test_a_fact_without_a_known_cause_hangs_under_the_newest_and_says_so() -> None:
    trace = build("J", [*WAY[:5], fact("unschedulable", 1.3, "scheduler", "elsewhere")])
    assert (trace.spans[-1].parent, trace.spans[-1].caused) == ("placed", False)


def test_a_living_job_is_measured_to_its_newest_fact() -> None:
    trace = build("J", WAY[:5])
    assert (trace.finished, trace.total_s) == (False, 0.25)


def test_the_trace_id_is_the_submissions() -> None:
    assert build("J", WAY).trace_id == "ab" * 16


SCALED = [
    *WAY[:4],
    fact("unschedulable", 1.25, "scheduler", "queued"),
    fact("gpu-attach-chosen", 1.3, "scaler", "unschedulable", about=("scale", "s000001")),
    fact("accepted", 1.4, "composer", "gpu-attach-chosen", about=("composability", "s000001")),
    fact("attaching", 1.5, "composer", "accepted", about=("attachment", "a1")),
    fact("failed", 1.6, "composer", "attaching", about=("attachment", "a1")),
    fact("placed", 9.0, "scheduler", "queued"),
]


def test_what_was_done_for_the_job_stands_between_waiting_and_placed_with_what_it_is_about() -> None:
    trace = build("J", SCALED)
    assert drawn(trace)[2:] == [
        (2, "queued"), (3, "unschedulable"), (4, "gpu-attach-chosen"), (5, "accepted"), (6, "attaching"), (7, "failed"),
        (3, "placed"),
    ]  # fmt: skip
    assert trace.services == ("gateway", "federation", "scheduler", "scaler", "composer")
    lines = list(trace_lines(trace))
    assert any("composer attaching attachment a1" in line for line in lines)
    assert any("scheduler placed " in line and "job J" not in line for line in lines)


def attached(number: int, at_s: float) -> list[FactView]:
    about = ("attachment", f"a{number}")
    return [
        fact(f"requested-{number}", 1.5, "composer", "accepted", about=about),
        fact(f"online-{number}", at_s, "composer", f"requested-{number}", about=about),
    ]


MANY = [
    *SCALED[:7],
    *[one.model_copy(update={"name": one.name.split("-")[0]}) for n in range(5) for one in attached(n, 2.0 + n % 4)],
]


def test_of_devices_attached_alike_the_slowest_stands_for_all_but_in_the_whole_tree() -> None:
    trace = build("J", MANY)
    lines = list(trace_lines(trace))
    devices = [line.split("composer ")[1].split("+")[0].strip() for line in lines if "attachment" in line]
    assert devices == ["requested attachment a3 (and 4 like it)", "online attachment a3"]
    whole = [line for line in trace_lines(trace, whole=True) if "attachment" in line]
    assert len(whole) == 10
    assert not any("like it" in line for line in whole)


def test_a_device_from_which_something_else_follows_is_drawn() -> None:
    follows = fact("ended", 8.0, "scaler", "online-0", about=("scale", "s000001"))
    lines = list(trace_lines(build("J", [*MANY, follows])))
    assert sum("online attachment" in line for line in lines) == 2
    assert any("(and 3 like it)" in line for line in lines)


def test_two_devices_are_drawn_each() -> None:
    lines = list(trace_lines(build("J", MANY[:11])))
    assert sum("online attachment" in line for line in lines) == 2


@given(st.permutations(MANY), st.booleans())
def test_whatever_is_left_out_no_fact_of_the_job_is(facts: list[FactView], whole: bool) -> None:
    lines = list(trace_lines(build("J", facts), whole=whole))
    for name in ("submitted", "routed", "queued", "unschedulable", "gpu-attach-chosen", "accepted"):
        assert sum(f" {name}" in line for line in lines) >= 1


def test_a_device_that_failed_does_not_end_the_job() -> None:
    trace = build("J", SCALED)
    assert (trace.finished, trace.total_s) == (False, 8.0)


def test_nothing_known_is_an_empty_trace() -> None:
    assert build("J", []).spans == ()


@given(st.permutations(WAY))
def test_the_order_of_arrival_does_not_matter(facts: list[FactView]) -> None:
    assert build("J", facts) == build("J", WAY)


NAMES = ["a", "b", "c", "d", "e", "f"]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.lists(st.sampled_from(NAMES), max_size=3))))
def test_any_causes_even_circular_ones_draw_every_fact_once(rows: list[tuple[str, int, list[str]]]) -> None:
    trace = build("J", [fact(name, at, "scheduler", *causes) for name, at, causes in rows])
    assert sorted(span.id for span in trace.spans) == sorted({name for name, _, _ in rows})
    assert all(span.after_parent_s >= 0 for span in trace.spans)
