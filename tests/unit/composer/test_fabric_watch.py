"""What metrics and the log tell of fabrics, from what a composer folded."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import REGISTRY

from kit.composer import BOUNDS, VirtualComposer, composer_with, config
from kit.composer_fabrics import A100, device, machine
from muster.composer.fabric_watch import SILENT_S, FabricWatch
from muster.schemas.devices import CXL_MEMORY, GPU, PoolModel
from muster.schemas.facts.device import CallFailure
from muster.schemas.facts.fabric import FabricSurveyed

ONE = "one"


def sample(name: str, **labels: str) -> float | None:
    """Of the page, without the prefix."""
    return REGISTRY.get_sample_value(f"muster_{name}", labels)


def fabric(name: str, **labels: str) -> float | None:
    return sample(f"fabric_{name}", fabric=ONE, **labels)


def phase(name: str) -> float | None:
    return sample("attachments", fabric=ONE, phase=name)


def pool(model: str, *, type: str = GPU) -> tuple[float | None, float | None]:  # noqa: A002 - the label's name
    """Free and attached."""
    return tuple(fabric("devices", type=type, model=model, place=place) for place in ("free", "attached"))  # type: ignore[return-value]


@dataclass
class Watched:
    """A harness and who watches it. elapsed_s: what the monotonic clock says."""

    it: VirtualComposer
    elapsed_s: float = 0.0
    seen: int = 0
    watch: FabricWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = FabricWatch(self.it.core, {ONE: ((GPU, A100),)}, monotonic_s=lambda: self.elapsed_s)
        self.seen = len(self.it.log)
        self.watch.after_fold((), self.it.now)

    def look(self) -> None:
        """The shell tells what was folded since."""
        facts, self.seen = self.it.log[self.seen :], len(self.it.log)
        self.watch.after_fold(facts, self.it.now)


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched(composer_with("n1", "n2"))
    yield made
    made.watch.close()


@pytest.fixture
def unseen() -> Iterator[Watched]:
    """Its fabric has not answered yet."""
    it = VirtualComposer(config())
    it.fabrics.stock(ONE, (GPU, A100), 1)
    it.fabrics.blind = CallFailure.UNAVAILABLE
    made = Watched(it)
    yield made
    made.watch.close()


def delta(before: float | None, after: float | None) -> float:
    return (after or 0.0) - (before or 0.0)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def silent(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in lines(caplog, logging.WARNING) if "has not answered" in line]


def break_all(watched: Watched) -> None:
    """Every call fails until the breaker opens."""
    for _ in range(BOUNDS.breaker_failures):
        for call in watched.it.fabrics.attaching:
            watched.it.fabrics.tell(call, CallFailure.UNAVAILABLE, "503")
        watched.it.settle()


# --- what is so ---------------------------------------------------------------------------------------------------


def test_a_fabric_at_rest_shows_its_pool_and_a_closed_breaker(watched: Watched) -> None:
    assert pool(A100) == (8, 0)
    assert (fabric("breaker"), fabric("orphans"), fabric("calls_unsettled")) == (0, 0, 0)
    assert (phase("online"), phase("requested")) == (0, 0)


def test_a_device_is_counted_in_each_phase_until_it_is_back(watched: Watched) -> None:
    watched.it.compose(target_node="n1")
    watched.look()
    assert (phase("attaching"), fabric("calls_unsettled")) == (1, 1)
    (call,) = watched.it.fabrics.attaching
    there = watched.it.fabrics.finish(call)
    assert there is not None
    watched.it.settle()
    watched.look()
    assert (phase("attaching"), phase("attached"), fabric("calls_unsettled"), pool(A100)) == (0, 1, 0, (7, 1))
    watched.it.plug()
    watched.it.detach(there.device_uuid)
    watched.look()
    assert (phase("online"), phase("withholding")) == (0, 1)
    watched.it.withdraw_all()
    watched.look()
    assert (phase("withholding"), phase("detaching"), pool(A100)) == (0, 0, (8, 0))


def test_who_leads_next_shows_what_stands_already(watched: Watched) -> None:
    watched.it.bring(size=2, target_node="n1")
    watched.watch.close()
    assert (phase("online"), fabric("breaker"), pool(A100)) == (None, None, (None, None))
    again = Watched(watched.it)
    assert (phase("online"), fabric("breaker"), pool(A100)) == (2, 0, (6, 2))
    again.watch.close()


def test_models_that_no_settings_name_are_one_other(watched: Watched) -> None:
    models = tuple(PoolModel(type=GPU, model=f"odd-{index}", free=1) for index in range(5))
    odd = (*models, PoolModel(type=CXL_MEMORY, model="m", free=1), PoolModel(type="fpga", model="f", attached=2))
    watched.it.write("composer", "fabric", ONE, "surveyed", FabricSurveyed(pool=odd))
    watched.look()
    assert pool(A100) == (0, 0)
    assert (pool("other"), pool("other", type=CXL_MEMORY), pool("other", type="other")) == ((5, 0), (1, 0), (0, 2))
    watched.it.write("composer", "fabric", ONE, "surveyed", FabricSurveyed(pool=()))
    watched.look()
    assert pool("other") == (0, 0), "what went is not shown for ever"


def test_the_age_of_the_newest_look_grows_while_nothing_happens(watched: Watched) -> None:
    before = fabric("survey_age_seconds")
    watched.elapsed_s += 7
    assert delta(before, fabric("survey_age_seconds")) == 7
    watched.it.advance(BOUNDS.survey_s * 3)
    watched.look()
    age_s = fabric("survey_age_seconds")
    assert age_s is not None
    assert age_s <= BOUNDS.survey_s


def test_without_any_look_the_age_counts_from_the_start(unseen: Watched) -> None:
    unseen.it.advance(40)
    unseen.look()
    unseen.elapsed_s += 2
    assert fabric("survey_age_seconds") == 42


# --- what happened ------------------------------------------------------------------------------------------------


def test_the_time_to_online_and_the_time_back_are_measured_once(watched: Watched) -> None:
    before = [sample(f"{way}_seconds_{what}", fabric=ONE) for way in ("attach", "detach") for what in ("count", "sum")]
    watched.it.compose(target_node="n1")
    watched.look()
    (call,) = watched.it.fabrics.attaching
    watched.it.advance(20)
    watched.it.fabrics.finish(call)
    watched.it.settle()
    watched.it.plug()
    watched.look()
    watched.it.decompose()
    watched.it.advance(5)
    watched.look()
    watched.it.withdraw_all()
    watched.look()
    after = [sample(f"{way}_seconds_{what}", fabric=ONE) for way in ("attach", "detach") for what in ("count", "sum")]
    assert [delta(*pair) for pair in zip(before, after, strict=True)] == [1, 20, 1, 5]


def test_a_device_that_comes_online_again_after_a_detachment_was_given_up_took_no_time_to_attach(
    watched: Watched,
) -> None:
    (uuid,) = watched.it.bring(target_node="n1")
    watched.look()
    before = sample("attach_seconds_count", fabric=ONE), sample("detachments_given_up_total", fabric=ONE)
    watched.it.detach(uuid)
    watched.it.withhold()
    watched.it.settle()
    (call,) = watched.it.fabrics.detaching
    watched.it.fabrics.tell(call, CallFailure.REFUSED)
    watched.it.advance(60)
    watched.it.release(uuid)
    watched.it.settle()
    watched.look()
    assert (watched.it.names().count("online"), phase("online")) == (2, 1)
    after = sample("attach_seconds_count", fabric=ONE), sample("detachments_given_up_total", fabric=ONE)
    assert [delta(*pair) for pair in zip(before, after, strict=True)] == [0, 1]


def test_devices_that_stood_there_took_no_time_to_attach() -> None:
    it = VirtualComposer(config())
    it.fabrics.place(ONE, machine("n1"), device(901))
    it.node("n1")
    watched, before = Watched(it), sample("attach_seconds_count", fabric=ONE)
    it.settle()
    it.show("n1", "GPU-901")
    it.release("GPU-901")
    it.settle()
    watched.look()
    assert phase("online") == 1
    assert delta(before, sample("attach_seconds_count", fabric=ONE)) == 0
    watched.watch.close()


def test_devices_found_after_a_lost_answer_are_counted_as_adopted(watched: Watched) -> None:
    before = sample("attachments_adopted_total", fabric=ONE)
    watched.it.compose(target_node="n1")
    watched.look()
    (call,) = watched.it.fabrics.attaching
    watched.it.fabrics.do(call)
    watched.it.fabrics.tell(call, CallFailure.TIMEOUT)
    watched.it.advance(200)
    watched.look()
    assert delta(before, sample("attachments_adopted_total", fabric=ONE)) == 1


def test_requests_are_counted_by_what_came_of_them(watched: Watched) -> None:
    words = ("accepted", "refused", "ended")
    before = [sample("device_requests_total", outcome=word) for word in words]
    watched.it.bring("fine", target_node="n1")
    watched.it.compose("impossible", model="B200")
    watched.it.decompose("fine")
    watched.it.withdraw_all()
    watched.look()
    after = [sample("device_requests_total", outcome=word) for word in words]
    assert [delta(*pair) for pair in zip(before, after, strict=True)] == [1, 1, 1]


def test_attachments_that_fail_for_good_are_counted_and_told_in_one_line(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    before = sample("attachments_failed_total", fabric=ONE, failure="refused")
    watched.it.compose(size=2, target_node="n1")
    watched.look()
    for call in watched.it.fabrics.attaching:
        watched.it.fabrics.tell(call, CallFailure.REFUSED, "machine is off")
    watched.it.settle()
    watched.look()
    assert delta(before, sample("attachments_failed_total", fabric=ONE, failure="refused")) == 2
    (line,) = lines(caplog, logging.WARNING)
    assert "fabric one: 2 attachment(s) failed for good" in line
    assert f"({A100} for n1): machine is off" in line
    assert phase("attaching") == 0


def test_an_attachment_that_nobody_wants_any_more_did_not_fail(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.it.compose(size=6, allocation_policy="differentnode")
    watched.look()
    watched.it.decompose()
    watched.look()
    assert "failed" in watched.it.names()
    assert lines(caplog, logging.WARNING) == []


# --- what is told -------------------------------------------------------------------------------------------------


def test_a_breaker_that_opens_is_told_with_the_error_and_until_when_and_when_it_closes(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watched.it.compose(size=6, allocation_policy="differentnode")
    break_all(watched)
    watched.look()
    assert fabric("breaker") == 2
    (line,) = lines(caplog, logging.WARNING)
    assert line.startswith("fabric one gets no calls until 2033-05-18T03:")
    assert f"{BOUNDS.breaker_failures} failure(s) in a row, the last unavailable: 503" in line
    watched.it.advance(BOUNDS.breaker_s)
    watched.look()
    assert fabric("breaker") == 1
    (call,) = watched.it.fabrics.attaching
    watched.it.fabrics.finish(call)
    watched.it.settle()
    watched.look()
    assert fabric("breaker") == 0
    assert lines(caplog, logging.INFO) == ["fabric one answers again"]


def test_orphans_are_told_in_one_line(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.it.fabrics.place(ONE, machine("n1"), device(901))
    watched.it.fabrics.place(ONE, machine("n2"), device(902))
    watched.it.advance(40)
    watched.look()
    assert fabric("orphans") == 2
    (line,) = lines(caplog, logging.WARNING)
    assert "2 device(s) on our machines without a request" in line
    assert f"GPU-901 ({A100}) on {machine('n1')}; returned after 100 s" in line


def test_a_fabric_that_never_answered_is_told_once_and_when_it_does(
    unseen: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    unseen.it.advance(SILENT_S - 1)
    unseen.look()
    assert not silent(caplog), "managers start, too"
    for _ in range(3):
        unseen.it.advance(1)
        unseen.look()
    assert silent(caplog) == ["fabric one has not answered since the term began: nobody there"]
    unseen.it.fabrics.blind = None
    unseen.it.advance(200)
    unseen.look()
    assert "fabric one answers" in lines(caplog, logging.INFO)


def test_calls_that_work_leave_no_line(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched.it.bring(size=3, target_node="n1")
    watched.look()
    watched.it.decompose()
    watched.it.withdraw_all()
    watched.look()
    assert caplog.records == []
