"""Random histories of a composer: people who ask, a fabric that fails, a cluster that answers late, lost leaders."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from kit.composer import BOUNDS, JOB, VirtualComposer, composer_with, config
from kit.composer_fabrics import A100
from muster.composer.core.fabrics import AttachCall, Call
from muster.composer.core.limits import Bounds
from muster.core import Fact, Instant
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.device import (
    CallFailed,
    CallFailure,
    CallStarted,
    DeviceAttached,
    DeviceDetached,
)
from muster.schemas.facts.node import Withheld

LIMIT = 3
NODES = ("n1", "n2")
SHORT = Bounds(
    attempts_max=3, backoff_s=2.0, breaker_failures=6, breaker_s=20.0, orphan_s=60.0, withhold_s_max=40.0,
    scaler_withhold_s=10.0, attach_s_max=400.0, detach_s_max=300.0, visible_s_max=120.0,
)  # fmt: skip

ACTS = (
    "compose", "resize", "decompose", "choose", "take", "detach", "finish", "finish", "finish", "lose-answer", "half",
    "unavailable", "refuse", "nonsense", "nothing-done", "twice", "plug", "plug", "withhold", "withhold", "hold",
    "let-go", "force", "bring", "bring", "wait", "wait", "wait-long", "restart", "restart-from-checkpoint",
    "node-leaves", "node-returns",
)  # fmt: skip
acts = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 7)), min_size=5, max_size=40)


def new_harness() -> VirtualComposer:
    return composer_with(*NODES, pool=6, limit=LIMIT, bounds=SHORT)


@dataclass
class Watch:
    """Invariants over the log as it is written, folded apart from the core."""

    it: VirtualComposer
    seen: int = 0
    claims: dict[str, str] = field(default_factory=dict)
    open: dict[str, CallStarted] = field(default_factory=dict)
    unsettled: dict[str, Instant] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=set)

    def check(self) -> None:
        for fact in self.it.log[self.seen :]:
            self._fold(fact)
        self.seen = len(self.it.log)

    def _fold(self, fact: Fact) -> None:
        name, payload = fact.subject_id, fact.payload
        match payload:
            case CallStarted():
                self._call(fact, payload)
            case CallFailed():
                started = self.open.pop(name)
                if payload.failure in (CallFailure.TIMEOUT, CallFailure.NONSENSE, CallFailure.ABANDONED):
                    self.unsettled[name] = Instant(started.deadline_at)
            case DeviceAttached():
                assert payload.device_id not in self.claims, f"{payload.device_id} is attached twice"
                assert name not in self.claims.values(), f"{name} has two devices"
                self.claims[payload.device_id] = name
                self.open.pop(name, None)
                self.unsettled.pop(name, None)
            case DeviceDetached():
                assert self.claims.pop(payload.device_id) == name
                self.open.pop(name, None)
                self.unsettled.pop(name, None)
            case Withheld():
                self.withheld.add(payload.request_id)
        if fact.name in ("failed", "detach-given-up"):
            self.unsettled.pop(name, None)

    def _call(self, fact: Fact, started: CallStarted) -> None:
        name = fact.subject_id
        deadline = self.unsettled.pop(name, None)
        if deadline is not None and fact.name == "attaching":
            assert any(deadline < looked <= fact.time for looked in self.it.fabrics.looked_at), "called again blindly"
        self.open[name] = started
        unsure = [until for until in self.unsettled.values() if until > fact.time]
        assert len(self.open) + len(unsure) <= LIMIT, f"{len(self.open)} calls and {len(unsure)} unsure ones"
        if fact.name == "detaching":
            assert any(one.startswith(f"{name}.") for one in self.withheld), f"{name} goes without being withheld"
            assert started.forced or not self.it.holders("device", started.device_uuid), f"{name} is held"


def play(it: VirtualComposer, story: list[tuple[str, int]], watch: Watch) -> None:
    for act, number in story:
        do(it, act, number)
        it.settle()
        watch.check()


def finish(it: VirtualComposer, watch: Watch) -> None:
    """Everything is given back, the fabric works again, and time passes until nothing more happens."""
    for node in NODES:
        if node not in it.core.state.hosts.nodes:
            it.node(node)
    for _ in range(20):
        it.let_go()
        for name, request in tuple(it.core.state.requests.items()):
            if request.is_live and not request.deleting:
                it.decompose(name)
        for uuid in tuple(it.core.state.attachments.by_uuid):
            it.detach(uuid)
        for _ in range(6):
            for call in (*it.fabrics.attaching, *it.fabrics.detaching):
                it.fabrics.finish(call)
            it.settle()
            it.withhold()
            it.plug()
            it.advance(10)
            watch.check()
        it.advance(60)
        watch.check()


def do(it: VirtualComposer, act: str, number: int) -> None:  # noqa: C901, PLR0912, PLR0915 - one branch per thing that can happen
    calls: list[Call] = [*it.fabrics.attaching, *it.fabrics.detaching]
    call = calls[number % len(calls)] if calls else None
    node = NODES[number % 2]
    uuids = sorted(it.core.state.attachments.by_uuid)
    match act:
        case "compose":
            it.compose(f"r{number % 3}", size=1 + number % 3)
        case "resize":
            it.compose(f"r{number % 3}", size=number % 3)
        case "decompose":
            it.decompose(f"r{number % 3}", force=number > 4, may_force=number > 5)
        case "choose":
            it.choose(f"s{len(it.log)}", (node, 1 + number % 2))
        case "take" if uuids:
            it.choose(f"s{len(it.log)}", devices=(uuids[number % len(uuids)],))
        case "detach" if uuids:
            it.detach(uuids[number % len(uuids)], force=number > 5, may_force=True)
        case "finish" if call is not None:
            it.fabrics.finish(call)
        case "lose-answer" if call is not None:
            it.fabrics.do(call)
            it.fabrics.tell(call, CallFailure.TIMEOUT)
        case "half" if call is not None:
            it.fabrics.do(call)
            it.fabrics.tell(call, CallFailure.UNAVAILABLE)
        case "unavailable" if call is not None:
            it.fabrics.tell(call, CallFailure.UNAVAILABLE)
        case "refuse" if call is not None:
            it.fabrics.tell(call, CallFailure.REFUSED)
        case "nonsense" if call is not None:
            it.fabrics.do(call)
            it.fabrics.tell(call, CallFailure.NONSENSE)
        case "nothing-done" if call is not None:
            it.fabrics.tell(call, CallFailure.TIMEOUT)
        case "twice" if isinstance(call, AttachCall) and it.fabrics.free["one"]["gpu", A100] > 1:
            it.fabrics.do(call)
            it.fabrics.finish(call)
        case "plug":
            it.plug()
        case "withhold":
            it.withhold()
        case "hold" if _is_online(it, node) and JOB not in it.jobs:
            it.hold(node, 0)
        case "force" if _is_online(it, node):
            if JOB not in it.jobs:
                it.hold(node, 0)
            it.detach(it.descriptions[node].gpu_uuids[0], force=True, may_force=number > 1)
        case "bring":
            for each in it.fabrics.attaching:
                it.fabrics.finish(each)
            it.settle()
            it.plug()
        case "let-go":
            it.let_go(JOB)
        case "wait":
            it.advance(1 + number)
        case "wait-long":
            it.advance(30 * (1 + number))
        case "restart":
            it.restart()
        case "restart-from-checkpoint":
            it.restart(from_checkpoint=True)
        case "node-leaves" if node in it.core.state.hosts.nodes and number > 4:
            it.let_go(JOB)
            it.leave(node)
        case "node-returns" if node not in it.core.state.hosts.nodes:
            it.node(node)
            it.plug()


def _is_online(it: VirtualComposer, node: str) -> bool:
    """Whether the scheduler could place a job on the node's first device."""
    uuids = it.descriptions[node].gpu_uuids
    owner = it.core.state.attachments.by_uuid.get(uuids[0]) if uuids else None
    return owner is not None and it.core.state.attachments[owner].phase is AttachmentPhase.ONLINE


__all__ = ["BOUNDS", "LIMIT", "Watch", "acts", "config", "finish", "new_harness", "play"]
