"""Reservations, backfill and making way together over random histories: the ledger balances, and every core agrees."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scheduler import belief, ledger_balances
from kit.scheduler_runs import RunningScheduler
from muster.core import NS_PER_S
from muster.schemas.facts.job import JobPlaced
from muster.schemas.facts.node import NodeLeft, WithholdRequested
from muster.schemas.facts.reservation import Repeat, ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.job import Phase

QUEUES = ("a", "b")
OPS = ("job", "job", "job", "job", "wait", "wait", "reserve", "unreserve", "lose", "back", "leave", "join",
       "withhold", "cancel")  # fmt: skip
HISTORY = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 7), st.integers(0, 3), st.integers(1, 400)),
    min_size=8,
    max_size=40,
)


class Yard(RunningScheduler):
    """Two queues below one, three nodes, and anything that may happen to them."""

    def __init__(self) -> None:
        super().__init__(queues=("top",))
        for name in QUEUES:
            self.queue(name, parent="top", starving_after_s=30.0)
        for index in range(3):
            self.join(f"n{index}", gpus=4)
        self.count_of = 0

    def do(self, op: str, which: int, extra: int, amount: int) -> None:
        name, node = f"{op}{self.count_of}", f"n{extra % 3}"
        self.count_of += 1
        match op:
            case "job":
                self.come(
                    name,
                    run_s=float(amount),
                    gpus=1 + which % 4,
                    replicas=1 + extra,
                    queue=QUEUES[which % 2],
                    preemptible=which < 6,
                    priority=50 + 10 * (which % 3),
                    total_run_time_s=2.0 * amount,
                    min_slice_s=float(amount % 90),
                    grace_s=5.0,
                    full_node=which == 5,
                )
            case "wait":
                self.advance(amount / 4)
            case "reserve":
                self.reserve(f"r{which % 3}", node, which, amount)
            case "unreserve":
                payload = ReserveEndRequested(principal="root")
                self.write("federation", "reservation", f"r{which % 3}", "end-forwarded", payload)
            case "lose" | "back" if node in self.nodes:
                self.set_lost_quietly(node, lost=op == "lose")
            case "leave" if node in self.nodes:
                del self.nodes[node]
                self.write("agent", "node", node, "left", NodeLeft())
            case "join":
                self.join_quietly(node, gpus=4 + which % 2)
            case "withhold":
                request = WithholdRequested(request_id=name, force=False)
                self.write("composer", "node", node, "withhold-requested", request)
            case "cancel" if self.works:
                self.cancel(list(self.works.values())[which % len(self.works)].job)
        self.settle()

    def reserve(self, name: str, node: str, which: int, amount: int) -> None:
        owner = ({"queue": "a"}, {"queue": "top"}, {})[which % 3]
        what = {"nodes": (node,)} if which % 2 else {"gpus": 1 + which}
        spec = ReservationSpec(
            name=name,
            starts_at=self.now + amount * NS_PER_S // 2,
            duration_s=float(amount),
            repeat=Repeat.WEEKLY if which == 7 else Repeat.ONCE,
            **owner,
            **what,
        )
        payload = ReserveRequested(spec=spec, principal="root")
        self.write("federation", "reservation", name, "reserve-forwarded", payload)

    def check(self) -> None:
        """What holds after every event."""
        ledger_balances(self.core)
        state = self.core.state
        for booking in state.bookings.all.values():
            record = state.jobs.records.get(booking.key)
            assert booking.is_reservation or (record is not None and record.phase is Phase.QUEUED)
        assert not [anomaly for anomaly in state.anomalies if "out of turn" in anomaly]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY)
def test_what_is_kept_balances_over_every_history(history: list[tuple[str, int, int, int]]) -> None:
    yard = Yard()
    for op, which, extra, amount in history:
        yard.do(op, which, extra, amount)
        yard.check()
    assert belief(yard.refold()) == belief(yard.core)
    assert belief(yard.recover()) == belief(yard.core)
    kept = {key: booking.kept for key, booking in yard.core.state.bookings.all.items()}
    for other in (yard.refold(), yard.recover()):
        other.state.proposals.settle()
        assert {key: booking.kept for key, booking in other.state.bookings.all.items()} == kept
    _nobody_is_where_somebody_reserved(yard)


def _nobody_is_where_somebody_reserved(yard: Yard) -> None:
    """While one of the named nodes' reservations lasts, only jobs of its owner are placed there."""
    booked = [fact for fact in yard.log if fact.name == "booked"]
    for fact in yard.log:
        if not isinstance(fact.payload, JobPlaced):
            continue
        queue = yard.core.state.jobs.records[fact.subject_id].queue
        for reservation in booked:
            spec, starts_at = reservation.payload.spec, reservation.payload.starts_at
            until = min(
                [starts_at + round(spec.duration_s * NS_PER_S)]
                + [
                    later.time
                    for later in yard.log
                    if later.seq > reservation.seq
                    and later.kind == "reservation"
                    and later.subject_id == reservation.subject_id
                    and later.name in ("booked", "ended")
                ]
            )
            is_there = bool({slot.node for slot in fact.payload.slots} & set(spec.nodes))
            if is_there and fact.seq > reservation.seq and starts_at <= fact.time < until:
                assert spec.queue in (queue, "top")
