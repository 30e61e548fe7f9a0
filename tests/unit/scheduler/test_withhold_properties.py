"""Over random histories: no new slot on what is withheld or reserved, nobody where it would stay too long, nobody
killed for it, and whoever would have room but for that is told so.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.closing import FINISH, MOVE, REQUEUE, ask, checkpointed, person, withdraw
from kit.scheduler import VirtualScheduler, belief, job, ledger_balances
from muster.core import NS_PER_S, Fact, Instant
from muster.scheduler.core.explain.why import OF_PLACES, explain
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.stores.exclusions import closed
from muster.schemas.facts.job import JobPlaced, JobStopRequested
from muster.schemas.facts.node import RunningJobs, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.reservation import Booked, ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.job import Checkpointing, Job, Phase

HOUR = 3_600.0
SHORT, LONG = {"total_run_time_s": HOUR / 2}, {"total_run_time_s": 8 * HOUR}
MOVABLE = {"checkpointing": Checkpointing(interval_s=600), "min_slice_s": HOUR / 2}
JOBS = [
    job("short", **SHORT),
    job("long", gpus=2, **LONG),
    job("moves", gpus=1, **MOVABLE, **LONG),
    job("gang", gpus=1, replicas=3, **MOVABLE, **LONG),
    job("stays", gpus=1, preemptible=False, **LONG),
    job("brief", gpus=2, replicas=2, **SHORT),
    job("share", gpu_milli=500, **LONG),
]
NODES = ("n0", "n1", "n2")
DEVICES = tuple(f"{name}-gpu-{index}" for name in NODES for index in range(2))
OPS = (
    *("route", "route", "start", "start", "exit", "checkpoint", "ask", "ask", "withdraw", "person", "wait", "wait"),
    *("ask-device", "withdraw-device", "reserve", "end"),
)
RESERVED_S = 1.5 * HOUR
"""How long a reservation lasts."""
HISTORY = st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 6), st.integers(0, 2)), min_size=10, max_size=60)


@dataclass
class Asked:
    """What stands of one node or device, as its requests say: told apart from the scheduler's own grants.

    from_at: of each request, 0: in force. cordoned: by a person.
    """

    requests: dict[str, tuple[int, RunningJobs]] = field(default_factory=dict)
    cordoned: bool = False


@dataclass
class Watcher:
    """Folds the log beside the scheduler, and says what must not be. booked: when each reservation begins, by node."""

    jobs: dict[str, Job]
    nodes: dict[str, Asked] = field(default_factory=lambda: {name: Asked() for name in (*NODES, *DEVICES)})
    booked: dict[str, int] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    left_s: dict[str, float] = field(default_factory=dict)

    def watch(self, fact: Fact) -> None:
        asked = self.nodes.get(fact.subject_id)
        match fact.name, fact.payload:
            case "withhold-requested", WithholdRequested() as wish if asked and wish.request_id not in self.answered:
                asked.requests[wish.request_id] = wish.from_at if wish.from_at > fact.time else 0, wish.running
            case "withhold-withdrawn", payload if asked and payload.request_id not in self.answered:
                asked.requests.pop(payload.request_id, None)
            case "withheld", payload if asked:
                self.answered.add(payload.request_id)
                at, running = asked.requests[payload.request_id]
                assert fact.time >= at, "answered before its moment"
                asked.requests[payload.request_id] = 0, running
            case (("cordon-forwarded" | "drain-forwarded"), _) if asked:
                asked.cordoned = True
            case "resume-forwarded", _ if asked:
                asked.cordoned = False
            case "booked", Booked() as booked:
                self.booked[booked.spec.nodes[0]] = booked.starts_at
            case "ended", _ if fact.kind == "reservation":
                self.booked.pop(fact.subject_id.removeprefix("m-"), None)
            case "placed", JobPlaced() as placed:
                self.placed(fact, placed)
            case "stop-requested", JobStopRequested() as stop:
                self.stopped(fact, stop)

    def placed(self, fact: Fact, placed: JobPlaced) -> None:
        spec = self.jobs[fact.subject_id].spec
        nodes = {slot.node for slot in placed.slots}
        for name in nodes & self.booked.keys():
            runs_s = min(spec.min_slice_s, spec.total_run_time_s) if spec.preemptible else spec.total_run_time_s
            leaves, begins = fact.time + runs_s * NS_PER_S, self.booked[name]
            assert leaves <= begins or fact.time >= begins + RESERVED_S * NS_PER_S, "it would stay in a reservation"
        devices = {f"{slot.node}-gpu-{index}" for slot in placed.slots for index in slot.devices}
        for name in nodes | devices:
            assert not self.nodes[name].cordoned, "placed on a cordoned node"
            for from_at, running in self.nodes[name].requests.values():
                may_move = running is not FINISH and spec.preemptible and spec.checkpointing is not None
                runs_s = spec.min_slice_s if may_move else spec.total_run_time_s
                assert from_at, "placed on a withheld node"
                assert fact.time + runs_s * NS_PER_S <= from_at, "it would stay too long"

    def stopped(self, fact: Fact, stop: JobStopRequested) -> None:
        spec = self.jobs[fact.subject_id].spec
        if "moved off" in stop.detail:
            assert spec.preemptible, "killed, for it may not be stopped"
            assert spec.checkpointing is not None, "killed, for it cannot resume"
            assert stop.grace_s == spec.grace_s
        elif "taken off" in stop.detail:
            asked = (running for node in self.nodes.values() for _, running in node.requests.values())
            assert REQUEUE in asked, "nobody asked for that"


def close(world: VirtualScheduler, op: str, which: int, extra: int) -> None:
    """What people and services ask of nodes and devices."""
    name, device = NODES[extra], DEVICES[2 * extra + which % 2]
    in_s, running = (0.0, HOUR, 2 * HOUR, 12 * HOUR)[which % 4], (FINISH, MOVE, REQUEUE)[which % 3]
    match op:
        case "ask":
            ask(world, name, running=running, in_s=in_s, request=f"r{which % 2}-{name}")
        case "withdraw":
            withdraw(world, name, request=f"r{which % 2}-{name}")
        case "ask-device":
            ask(world, device, kind="device", running=running, in_s=in_s, request=device)
        case "withdraw-device":
            world.write("upgrader", "device", device, "withhold-withdrawn", WithholdWithdrawn(request_id=device))
        case "reserve":
            starts_at = world.now + (1 + which) * 3 * HOUR * NS_PER_S
            spec = ReservationSpec(name=f"m-{name}", nodes=(name,), starts_at=int(starts_at), duration_s=RESERVED_S)
            asked = ReserveRequested(spec=spec, principal="root")
            world.write("federation", "reservation", spec.name, "reserve-forwarded", asked)
        case "end":
            over = ReserveEndRequested(principal="root")
            world.write("federation", "reservation", f"m-{name}", "end-forwarded", over)
        case "person":
            person(world, name, ("cordon", "drain", "resume")[which % 3])


def play(history: list[tuple[str, int, int]]) -> VirtualScheduler:
    world = VirtualScheduler(nodes=3, gpus=2)
    watcher = Watcher({one.id: one for one in JOBS})
    routed: set[str] = set()
    seen = 0
    for op, which, extra in history:
        one = JOBS[which]
        record = world.core.state.jobs.records.get(one.id)
        match op:
            case "route" if one.id not in routed:
                routed.add(one.id)
                world.route(one)
            case "start" if record is not None and record.phase is Phase.PLACED:
                world.started(one, attempt=record.attempt)
            case "checkpoint" if record is not None and record.phase is Phase.RUNNING:
                checkpointed(world, one, attempt=record.attempt)
            case "exit" if record is not None and record.phase in (Phase.RUNNING, Phase.STOPPING):
                is_stopped = record.phase is Phase.STOPPING
                world.exited(one, "stopped" if is_stopped else "succeeded", attempt=record.attempt)
            case "wait":
                world.now = Instant(world.now + (1 + which) * 600 * NS_PER_S)
            case _:
                close(world, op, which, extra)
        world.settle()
        for fact in world.log[seen:]:
            watcher.watch(fact)
        seen = len(world.log)
    return world


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY)
def test_what_is_closed_or_will_be_is_left_alone_and_nobody_is_killed_for_it(
    history: list[tuple[str, int, int]],
) -> None:
    world = play(history)
    ledger_balances(world.core)
    assert not world.core.decide(world.now)
    told_what_is_in_the_way(world)
    assert belief(world.refold()) == belief(world.core)
    recovered = belief(world.recover())
    for part in ("state", "free", "nodes", "holders"):
        assert recovered[part] == belief(world.core)[part]  # type: ignore[index]


def told_what_is_in_the_way(world: VirtualScheduler) -> None:
    """Who would have a place if nothing were kept is not told that the cluster lacks one."""
    state = world.core.state
    for record in state.jobs.records.values():
        if record.phase is not Phase.QUEUED or state.pending.queue_of(record) is None:
            continue
        said = explain(state, record, world.now)
        with state.bookings.opened(state.bookings.all), closed(state.fleet, record.job_class.avoided):
            has_room = state.fleet.find(record.job_class.gang) is not None
        assert not (has_room and said.reason in OF_PLACES), f"{record.job.spec.name}: {said}"
        assert has_room or said.reason not in (Reason.MAINTENANCE, Reason.RESERVATION)
