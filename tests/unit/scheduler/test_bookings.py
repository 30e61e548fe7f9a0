"""What is booked is held as far as it is idle, takes what comes free, and gives way to every fact about a job."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.node_records import NODE
from muster.placement import GangRequest, GroupRequest, Hold, TaskShape
from muster.placement import Slot as Place
from muster.scheduler.core.fold.updates import enter_slots
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking, Want, wants_of
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot

GPUS = 4
CPU_MILLI, MEMORY_MIB = 8_000, 4_096


def described(name: str, *, gpus: int = GPUS) -> NodeJoined:
    uuids = tuple(f"{name}-{index}" for index in range(gpus))
    return NodeJoined(cpu_milli=CPU_MILLI, memory_mib=MEMORY_MIB, gpu_model="H100", gpu_uuids=uuids)


def state_with(*names: str) -> State:
    state = State("c1")
    for name in names:
        state.ledger.join(name, described(name), fact="")
        state.grants.release(NODE, name, fact="", seq=0)
    return state


def gang(*, gpus: int = 0, gpu_milli: int = 0, full_node: bool = False) -> GangRequest:
    return GangRequest((GroupRequest(TaskShape(1_000, 512, gpus, gpu_milli, full_node=full_node), 1),))


def slot(name: str, *devices: int, gpu_milli: int = 1_000) -> Slot:
    return Slot(group=0, replica=0, node=name, devices=devices, gpu_milli=gpu_milli if devices else 0)


def place(state: State, job_id: str, name: str, *devices: int) -> None:
    """The job's `placed` is folded, whatever was proposed."""
    enter_slots(state, job_id, (slot(name, *devices),), gang(gpus=len(devices)))


def booking(key: str, name: str, *devices: int, starts_at: int = 0, cpu_milli: int = 0) -> Booking:
    return Booking(key, starts_at, {name: Want(cpu_milli, 0, tuple((index, 1_000) for index in devices))})


def idle(state: State, name: str) -> list[int]:
    node = state.fleet.ledger.nodes.get(name)
    assert node is not None
    return list(node.idle)


def test_what_is_idle_is_kept_at_once_and_the_rest_when_it_comes_free() -> None:
    state = state_with("n0")
    place(state, "a", "n0", 1)
    state.bookings.book(booking("w", "n0", 0, 1))
    state.proposals.settle()
    kept = state.bookings.all["w"]
    assert (idle(state, "n0"), kept.kept_milli, kept.is_complete) == ([0, 0, 1_000, 1_000], 1_000, False)
    state.ledger.free("a", (slot("n0", 1),), fact="", seq=1)
    state.proposals.settle()
    assert (idle(state, "n0"), kept.kept_milli, kept.is_complete) == ([0, 0, 1_000, 1_000], 2_000, True)
    assert list(state.bookings.complete) == ["w"]


def test_what_was_kept_is_free_for_all_when_it_is_unbooked() -> None:
    state = state_with("n0")
    state.bookings.book(booking("w", "n0", 0, 1, 2, 3))
    state.proposals.settle()
    before = state.fleet.version
    assert state.proposals.propose("a", gang(gpus=1)) is None
    assert state.bookings.unbook("w")
    state.proposals.settle()
    assert state.fleet.version > before
    assert state.proposals.propose("a", gang(gpus=1)) is not None


def test_a_fact_about_a_job_goes_before_what_is_kept() -> None:
    state = state_with("n0")
    state.bookings.book(booking("w", "n0", 0, 1, cpu_milli=CPU_MILLI))
    state.proposals.settle()
    place(state, "a", "n0", 0)
    state.proposals.settle()
    kept = state.bookings.all["w"]
    assert state.ledger.misfits == 0
    assert (kept.kept_milli, kept.is_complete) == (1_000, False)
    assert sum(hold.cpu_milli for hold in kept.kept["n0"]) == CPU_MILLI - 1_000


def test_the_earlier_booking_takes_first_whichever_was_booked_first() -> None:
    state = state_with("n0")
    state.bookings.book(booking("late", "n0", 0, starts_at=2))
    state.proposals.settle()
    state.bookings.book(booking("soon", "n0", 0, starts_at=1))
    state.proposals.settle()
    assert list(state.bookings.complete) == ["soon"]
    state.bookings.unbook("soon")
    state.proposals.settle()
    assert list(state.bookings.complete) == ["late"]


def test_an_open_booking_lends_its_places_and_keeps_what_is_left_of_them() -> None:
    state = state_with("n0")
    state.bookings.book(booking("w", "n0", 0, 1, 2, 3))
    state.proposals.settle()
    version = state.fleet.version
    with state.bookings.opened(["w"]):
        holds = state.proposals.propose("a", gang(gpus=1))
    assert holds is not None
    assert state.fleet.version == version
    assert state.bookings.all["w"].kept_milli == 3_000
    enter_slots(state, "a", tuple(slot(hold.slot.node, *hold.slot.devices) for hold in holds), gang(gpus=1))
    state.proposals.settle()
    assert state.bookings.all["w"].kept_milli == 3_000
    assert not state.bookings.complete


def test_what_a_later_booking_wants_of_an_open_one_stays_closed() -> None:
    state = state_with("n0")
    state.bookings.book(booking("mine", "n0", 0, 1, 2, 3, starts_at=1))
    state.bookings.book(booking("maintenance", "n0", 0, 1, 2, starts_at=2))
    state.proposals.settle()
    with state.bookings.opened(["mine"]):
        assert idle(state, "n0") == [0, 0, 0, 1_000]
    assert list(state.bookings.complete) == ["mine"]


def test_a_booking_concerns_those_who_need_devices_only_where_one_is_idle_or_kept() -> None:
    state = state_with("full", "half")
    for name, devices in (("full", (0, 1, 2, 3)), ("half", (0, 1))):
        place(state, f"on-{name}", name, *devices)
    rest_of_full, rest_of_half = (booking(f"rest-of-{name}", name, cpu_milli=1_000) for name in ("full", "half"))
    devices_of_half = booking("devices-of-half", "half", 2, 3)
    for one in (rest_of_full, rest_of_half):
        state.bookings.book(one)
    state.bookings.settle()
    assert state.bookings.is_effective(rest_of_full)
    assert not state.bookings.is_effective(rest_of_full, for_devices=True)
    assert state.bookings.is_effective(rest_of_half, for_devices=True)
    state.bookings.unbook(rest_of_half.key)
    state.bookings.book(devices_of_half)
    state.bookings.settle()
    assert not any(idle(state, "half"))
    assert state.bookings.is_effective(devices_of_half, for_devices=True)


def test_a_proposal_taken_back_goes_to_the_booking_again() -> None:
    state = state_with("n0")
    state.bookings.book(booking("w", "n0", 0, 1, 2, 3))
    state.proposals.settle()
    with state.bookings.opened(["w"]):
        state.proposals.propose("a", gang(gpus=2))
    grown = state.bookings.grown
    state.proposals.settle()
    assert "w" in state.bookings.complete
    assert state.bookings.grown > grown


def test_a_whole_node_is_complete_only_while_nobody_holds_a_thing_there() -> None:
    state = state_with("n0")
    place(state, "cpu", "n0")
    state.bookings.book(Booking("w", 0, {"n0": Want(whole=True)}))
    state.proposals.settle()
    assert idle(state, "n0") == [0] * GPUS
    assert not state.bookings.complete
    state.ledger.free("cpu", (slot("n0"),), fact="", seq=1)
    state.proposals.settle()
    assert list(state.bookings.complete) == ["w"]


def test_a_booking_waits_for_a_node_that_left() -> None:
    state = state_with("n0", "n1")
    wants = wants_of([Hold(1_000, 512, Place(0, index, f"n{index}", (0,), 1_000)) for index in range(2)])
    state.bookings.book(Booking("w", 0, wants))
    state.proposals.settle()
    assert "w" in state.bookings.complete
    state.ledger.leave("n1", fact="")
    state.proposals.settle()
    assert "w" not in state.bookings.complete
    state.ledger.join("n1", described("n1", gpus=0), fact="")
    state.proposals.settle()
    assert state.bookings.all["w"].lacking == {"n1"}
    state.ledger.join("n1", described("n1"), fact="")
    state.proposals.settle()
    assert "w" in state.bookings.complete


def test_places_are_proposed_exactly_or_not_at_all() -> None:
    state = state_with("n0", "n1")
    place(state, "a", "n1", 0)
    wanted = [Hold(1_000, 512, Place(0, index, f"n{index}", (0,), 1_000)) for index in range(2)]
    assert not state.proposals.propose_at("w", wanted)
    assert idle(state, "n0") == [1_000] * GPUS
    assert state.proposals.propose_at("w", wanted[:1])
    state.proposals.settle()
    state.ledger.set_lost("n0", True, fact="")
    assert not state.proposals.propose_at("w", wanted[:1])


OPS = ("place", "free", "free-some", "book", "unbook", "leave", "join", "lose", "open", "propose", "retract", "settle")
HISTORY = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 5), st.integers(0, 2), st.integers(1, 2**GPUS - 1)),
    max_size=60,
)


class Desk:
    """Books to which anything happens; jobs only ever hold what other jobs do not."""

    def __init__(self) -> None:
        self.names = ("n0", "n1", "n2")
        self.state = state_with(*self.names)
        self.held: dict[str, list[Slot]] = {}
        self.shares: dict[str, int] = {}
        self.usage: Counter[tuple[str, int]] = Counter()

    def do(self, op: str, which: int, at: int, mask: int) -> None:
        state, name, job_id = self.state, self.names[at], f"j{which}"
        match op:
            case "place":
                self.place(job_id, name, mask, share=(1_000, 400)[which % 2])
            case "free" if job_id in self.held:
                self.give(job_id, self.held[job_id])
                state.ledger.free(job_id, self.held.pop(job_id), fact="", seq=1)
            case "free-some" if job_id in self.held and len(self.held[job_id]) > 1:
                gone = self.held[job_id].pop()
                self.give(job_id, [gone])
                state.ledger.free(job_id, [*self.held[job_id], gone], fact="", seq=1)
                enter_slots(state, job_id, self.held[job_id], gang(gpus=len(gone.devices)))
            case "book":
                devices = [index for index in range(GPUS) if mask >> index & 1]
                other = self.names[(at + 1) % 3]
                wants = {
                    name: booking("", name, *devices, cpu_milli=2_000 * which).wants[name],
                    other: Want(whole=True),
                }
                state.bookings.book(Booking(f"b{which}", mask % 3, wants))
            case "unbook":
                state.bookings.unbook(f"b{which}")
            case "leave":
                state.ledger.leave(name, fact="")
            case "join":
                state.ledger.join(name, described(name, gpus=GPUS if mask % 2 else GPUS + 1), fact="")
                state.grants.release(NODE, name, fact="", seq=1)
            case "lose":
                state.ledger.set_lost(name, bool(mask % 2), fact="")
            case "open":
                with state.bookings.opened([f"b{index}" for index in range(which)]):
                    state.proposals.propose(f"p{which}", gang(gpus=1))
            case "propose":
                state.proposals.propose(f"p{which}", gang(gpus=mask % 3, gpu_milli=0))
            case "settle":
                state.proposals.settle()

    def place(self, job_id: str, name: str, mask: int, *, share: int) -> None:
        wanted = [index for index in range(GPUS) if mask >> index & 1][:2]
        if job_id in self.held and self.held[job_id][0].gpu_milli != share:
            return
        if any(self.usage[name, index] + share > 1_000 for index in wanted):
            return
        if any(slot.node == name for slot in self.held.get(job_id, ())):
            return
        for index in wanted:
            self.usage[name, index] += share
        one = slot(name, *wanted, gpu_milli=share)
        self.held.setdefault(job_id, []).append(one)
        enter_slots(self.state, job_id, (one,), gang(gpus=len(wanted)))

    def give(self, job_id: str, slots: list[Slot]) -> None:
        for one in slots:
            for index in one.devices:
                self.usage[one.node, index] -= one.gpu_milli

    def check(self) -> None:
        """Each device holds what jobs hold, and of the rest exactly what is booked."""
        state = self.state
        state.proposals.settle()
        for name in self.names:
            node = state.fleet.ledger.nodes.get(name)
            if node is None:
                assert all(name not in booking.kept for booking in state.bookings.all.values())
                continue
            wants = [booking.wants[name].on(node.shape) for booking in state.bookings.at(name)]
            kept = [hold for booking in state.bookings.at(name) for hold in booking.kept.get(name, ())]
            for index in range(node.shape.gpu_count):
                of_jobs = self.usage[name, index]
                booked = sum(hold.slot.gpu_milli for hold in kept if index in hold.slot.devices)
                wanted = sum(dict(want.devices).get(index, 0) for want in wants)
                assert booked == min(1_000 - of_jobs, wanted)
                assert node.idle[index] == 1_000 - of_jobs - booked >= 0
            of_jobs = 1_000 * sum(one.node == name for slots in self.held.values() for one in slots)
            booked = sum(hold.cpu_milli for hold in kept)
            assert booked == min(CPU_MILLI - of_jobs, sum(want.cpu_milli for want in wants))
            assert node.cpu_milli == CPU_MILLI - of_jobs - booked
            for booking in state.bookings.at(name):
                held = wants_of(booking.kept.get(name, ())).get(name, Want())
                want = booking.wants[name]
                is_kept = held == want.on(node.shape) and want.on(node.shape).is_all_of(want)
                assert (name not in booking.lacking) == is_kept
        for booking in state.bookings.all.values():
            assert (booking.key in state.bookings.complete) == booking.is_complete

    def same_as_new(self) -> None:
        """What is kept does not depend on how it came about."""
        other = state_with()
        for name in self.names:
            record = self.state.nodes.get(name)
            if record is not None and record.description is not None:
                other.ledger.join(name, record.description, fact="")
        for booking in reversed(self.state.bookings.all.values()):
            other.bookings.book(Booking(booking.key, booking.starts_at, booking.wants))
        other.proposals.settle()
        for job_id, slots in self.held.items():
            for one in slots:
                enter_slots(other, job_id, (one,), gang(gpus=len(one.devices)))
        other.proposals.settle()
        for key, booking in self.state.bookings.all.items():
            assert other.bookings.all[key].kept == booking.kept


@settings(max_examples=150, deadline=None)
@given(HISTORY)
def test_what_is_kept_follows_from_bookings_and_holds_alone(history: list[tuple[str, int, int, int]]) -> None:
    desk = Desk()
    for op, which, at, mask in history:
        desk.do(op, which, at, mask)
        if op != "settle":
            desk.check()
    assert desk.state.ledger.misfits == 0
    desk.same_as_new()
    for key in tuple(desk.state.bookings.all):
        desk.state.bookings.unbook(key)
    for job_id, slots in desk.held.items():
        desk.state.ledger.free(job_id, slots, fact="", seq=2)
    desk.state.proposals.settle()
    assert all(total.used_milli == 0 for total in desk.state.fleet.totals.values())
