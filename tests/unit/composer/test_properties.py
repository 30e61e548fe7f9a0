"""What holds in every history, however the fabric fails and whenever the leader changes."""

from hypothesis import HealthCheck, given, settings

from kit.composer import VirtualComposer
from kit.composer_fabrics import A100, FakeFabrics
from kit.composer_stories import Watch, acts, finish, new_harness, play
from muster.composer.core.core import ComposerCore
from muster.composer.core.decision import Tally
from muster.core import Draft
from muster.core.virtual import recover
from muster.schemas.devices import GPU

RUNS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RUNS
@given(acts)
def test_no_history_breaks_an_invariant_and_nothing_is_lost_at_its_end(story: list[tuple[str, int]]) -> None:
    it = new_harness()
    watch = Watch(it)
    play(it, story, watch)
    finish(it, watch)
    there = [one.device_id for devices in it.fabrics.on["one"].values() for one in devices]
    assert there == []
    assert it.fabrics.free["one"]["gpu", A100] == 6
    assert not it.core.state.attachments
    assert +it.core.state.attachments.reserved == {}
    assert not any(request.is_live for request in it.core.state.requests.values())


@RUNS
@given(acts)
def test_a_checkpoint_decides_what_the_whole_log_decides(story: list[tuple[str, int]]) -> None:
    it = new_harness()
    play(it, story, Watch(it))
    whole = recover(ComposerCore(_another(it), it.settings), (), it.log)
    restored = recover(ComposerCore(_another(it), it.settings), it.checkpoint())
    for core in (whole, restored):
        core.state.calls.lose()  # type: ignore[attr-defined]
    assert _ordered(whole.snapshot()) == _ordered(restored.snapshot())
    for seconds in (0, 30, 90, 600):
        now = type(it.now)(it.now + seconds * 10**9)
        for core in (whole, restored):
            core.decide(now)
        assert _ordered(whole.decide(now)) == _ordered(restored.decide(now))
        assert whole.next_wakeup() == restored.next_wakeup()


@RUNS
@given(acts)
def test_what_was_counted_of_a_machine_is_what_is_there(story: list[tuple[str, int]]) -> None:
    it = new_harness()
    play(it, story, Watch(it))
    capacity = it.core.capacity
    counted = [capacity.room(site, (GPU, A100), Tally()) for site in capacity.sites()]
    it.core.state.attachments.kinds_on.clear()
    assert [capacity.room(site, (GPU, A100), Tally()) for site in capacity.sites()] == counted


@RUNS
@given(acts)
def test_deciding_again_says_the_same(story: list[tuple[str, int]]) -> None:
    it = new_harness()
    play(it, story, Watch(it))
    now = type(it.now)(it.now + 120 * 10**9)
    it.core.decide(now)
    assert _ordered(it.core.decide(now)) == _ordered(it.core.decide(now))


def _another(it: VirtualComposer) -> FakeFabrics:
    """The same fabrics, as another leader sees them."""
    other = FakeFabrics()
    other.free, other.on = it.fabrics.free, it.fabrics.on
    return other


def _ordered(drafts: object) -> list[str]:
    return sorted(repr(draft) for draft in drafts if isinstance(draft, Draft))  # type: ignore[attr-defined]
