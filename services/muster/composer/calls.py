"""Make the composer's calls: orders of the core go to the fabrics' managers, outcomes wait until they are logged.

The core folds intents into `carry_out`; calls begin only in `after_fold`, while the service leads and before their
`start_by`. So every call of this process has its intent in the log, and a term knows its own calls: `open` forgets
earlier orders, because another leader may have begun them. Values that no fact could hold are nonsense here, for any
driver, so that the core sees only what it can write. Times are the shell's, continued by the loop's monotonic clock.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nats.aio.client import Client
from prometheus_client import Counter, Gauge, Histogram

from muster.bus.service import LeaderHandle
from muster.composer.core.core import ComposerCore
from muster.composer.core.fabrics import (
    AttachCall,
    AttachDone,
    Call,
    CallWentWrong,
    DetachDone,
    Look,
    Observation,
    Outcome,
    Surveyed,
    SurveyWentWrong,
)
from muster.composer.fabric_watch import FabricWatch
from muster.core import Instant
from muster.core.fact import Core, Fact
from muster.core.instant import after, seconds_between
from muster.fabric.checked import checked
from muster.fabric.driver import AttachOrder, DetachOrder, FabricDriver, FabricError
from muster.schemas.facts.device import CallFailure
from muster.schemas.facts.fabric import OperatorSeen

_DURATIONS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)

_CALLS = Counter("muster_fabric_calls", "Calls to a fabric's manager, by outcome.", ("fabric", "call", "outcome"))
_CALL_S = Histogram(
    "muster_fabric_call_seconds", "Calls that did what they should.", ("fabric", "call"), buckets=_DURATIONS_S
)
_RUNNING = Gauge("muster_fabric_calls_running", "Calls under way.", ("fabric",))


def call_over(call: Call, outcome: Outcome) -> None:
    """Count a call that was made, or was too late."""
    what = "attach" if isinstance(call, AttachCall) else "detach"
    if isinstance(outcome, CallWentWrong):
        _CALLS.labels(call.fabric, what, outcome.failure.value).inc()
    else:
        _CALLS.labels(call.fabric, what, "done").inc()
        _CALL_S.labels(call.fabric, what).observe(outcome.took_s)


def running(fabric: str, calls: int) -> None:
    """Show the number of calls in progress."""
    _RUNNING.labels(fabric).set(calls)


ERROR_CHARS_MAX = 400
"""Length of an outcome's message."""
SURVEY_GAP_S = 1.0
"""From the start of a failed survey to the start of the next."""
CLOSE_S = 5.0
"""For a driver to close its connections."""

_AT_ONCE = Instant(0)
_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Line:
    """How to reach one fabric. `open` makes its driver, once per term; `limit` bounds concurrent calls.

    `survey_s` is the timeout of a survey, `models` are the (type, model) pairs of the settings.
    """

    open: Callable[[], FabricDriver]
    limit: int
    survey_s: float
    models: tuple[tuple[str, str], ...] = ()


@dataclass
class _Lane:
    """One fabric during a leader term, with its queue."""

    line: Line
    queue: deque[Call] = field(default_factory=deque)
    running: dict[_Key, asyncio.Task[None]] = field(default_factory=dict)
    driver: FabricDriver | None = None
    look: Look | None = None
    look_told: bool = True
    looking: asyncio.Task[None] | None = None
    look_wanted: Instant | None = None

    def has_room(self) -> bool:
        return self.driver is not None and len(self.running) < min(self.line.limit, self.driver.parallel_max)


class FabricCalls:
    """The port `Fabrics` and the sink that works it. One instance serves a service's cores, one after the other.

    `seen` has the operator's devices by fabric, for its drivers.
    """

    def __init__(self, lines: Mapping[str, Line], seen: dict[str, OperatorSeen] | None = None) -> None:
        self._seen = {} if seen is None else seen
        self._core: ComposerCore | None = None
        self._lanes = {name: _Lane(line) for name, line in lines.items()}
        self._outcomes: dict[_Key, Outcome] = {}
        self._taken: set[_Key] = set()
        self._leader: LeaderHandle | None = None
        self._watch: FabricWatch | None = None
        self._now = Instant(0)
        self._now_at_s = 0.0
        self._defect: BaseException | None = None

    def carry_out(self, call: Call) -> None:
        """Queue a call. A fabric that is not configured is unavailable."""
        key = (call.order, call.attempt)
        if key in self._taken:
            return
        self._taken.add(key)
        lane = self._lanes.get(call.fabric)
        if lane is None:
            self._outcomes[key] = _wrong(call, CallFailure.UNAVAILABLE, f"fabric {call.fabric!r} is not configured")
        else:
            lane.queue.append(call)

    def is_under_way(self, order: str, attempt: int) -> bool:
        """Return whether this process makes the call, or has an outcome that is not acknowledged."""
        return (order, attempt) in self._taken

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        """Request a survey; the newest request counts, and a failed survey does not satisfy it."""
        lane = self._lanes.get(fabric)
        if lane is None:
            return
        if isinstance(lane.look, Surveyed) and lane.look.began_at >= not_before:
            lane.look_wanted = None
            return
        if isinstance(lane.look, SurveyWentWrong):
            not_before = max(not_before, after(lane.look.began_at, SURVEY_GAP_S))
        lane.look_wanted = not_before

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Return outcomes that are not acknowledged, and the newest survey of each fabric."""
        self._saw(now)
        looks = [lane.look for lane in self._lanes.values() if lane.look is not None]
        for lane in self._lanes.values():
            lane.look_told = True
        return [*self._outcomes.values(), *looks]

    def acknowledge(self, order: str, attempt: int) -> None:
        """Drop the outcome of a call; a call in progress continues without one."""
        key = (order, attempt)
        if key not in self._taken:
            return
        self._taken.discard(key)
        if self._outcomes.pop(key, None) is None:
            for lane in self._lanes.values():
                lane.queue = deque(call for call in lane.queue if (call.order, call.attempt) != key)

    def next_change(self) -> Instant | None:
        """Return when to observe again."""
        if self._outcomes or self._defect is not None:
            return _AT_ONCE
        moments = [moment for lane in self._lanes.values() for moment in _moments_of(lane)]
        return min(moments, default=None)

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Begin a term: forget earlier orders, connect again. Metrics follow a composer's core."""
        await self.close()
        self._leader = leader
        if isinstance(core, ComposerCore):
            self._core = core
            self._watch = FabricWatch(core, {name: lane.line.models for name, lane in self._lanes.items()})
        for lane in self._lanes.values():
            lane.driver = checked(lane.line.open())

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Begin calls that may begin. Raises errors of drivers other than FabricError: a defect ends the service."""
        self._saw(now)
        if self._core is not None:
            fabrics = self._core.state.fabrics.items()
            self._seen.update({name: fabric.operator for name, fabric in fabrics if fabric.operator is not None})
        if self._watch is not None:
            self._watch.after_fold(facts, now)
        if self._defect is not None:
            raise self._defect
        if self._leader is None or not self._leader.leads():
            return
        for lane in self._lanes.values():
            self._begin_calls(lane, now)
            self._begin_look(lane, now)

    async def close(self) -> None:
        """End the term and its calls; the next leader finds out their effect."""
        self._leader = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        tasks = [task for lane in self._lanes.values() for task in _tasks_of(lane)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        drivers = [lane.driver for lane in self._lanes.values() if lane.driver is not None]
        self._lanes = {name: _Lane(lane.line) for name, lane in self._lanes.items()}
        self._outcomes.clear()
        self._taken.clear()
        self._defect = None
        async with asyncio.timeout(CLOSE_S):
            await asyncio.gather(*(driver.close() for driver in drivers))

    def _begin_calls(self, lane: _Lane, now: Instant) -> None:
        while lane.queue and (lane.queue[0].start_by <= now or lane.has_room()):
            call = lane.queue.popleft()
            key = (call.order, call.attempt)
            if call.start_by <= now:
                late = _wrong(call, CallFailure.UNAVAILABLE, "not begun: its time to start was over")
                self._outcomes[key] = late
                call_over(call, late)
            else:
                left_s = seconds_between(now, call.deadline_at)
                lane.running[key] = asyncio.create_task(self._call(lane, call, left_s), name=f"call {call.order}")
                running(call.fabric, len(lane.running))

    async def _call(self, lane: _Lane, call: Call, left_s: float) -> None:
        assert lane.driver is not None, "a call runs only in a term"
        key = (call.order, call.attempt)
        started_s = _monotonic_s()
        try:
            async with asyncio.timeout(left_s):
                outcome = await _made(lane.driver, call, started_s)
        except FabricError as error:
            outcome = _wrong(call, error.failure, str(error))
        except TimeoutError:
            outcome = _wrong(call, CallFailure.TIMEOUT, f"no outcome within {left_s:.0f} s")
        except Exception as error:  # noqa: BLE001 - raised by the next after_fold
            self._fail(error)
            return
        finally:
            lane.running.pop(key, None)
            running(call.fabric, len(lane.running))
        call_over(call, outcome)
        if key in self._taken:
            self._outcomes[key] = outcome
        self._wake()

    def _begin_look(self, lane: _Lane, now: Instant) -> None:
        if lane.look_wanted is None or lane.look_wanted > now or lane.looking is not None:
            return
        lane.look_wanted = None
        lane.looking = asyncio.create_task(self._look(lane), name="survey")

    async def _look(self, lane: _Lane) -> None:
        """Survey once; the survey begins when this runs, not when it was requested."""
        assert lane.driver is not None, "looks are taken only in a term"
        name = next(name for name, each in self._lanes.items() if each is lane)
        began_at = self._present()
        try:
            async with asyncio.timeout(lane.line.survey_s):
                lane.look = Surveyed(name, began_at, await lane.driver.survey())
        except FabricError as error:
            lane.look = SurveyWentWrong(name, began_at, error.failure, str(error)[:ERROR_CHARS_MAX])
        except TimeoutError:
            said = f"no survey within {lane.line.survey_s:.0f} s"
            lane.look = SurveyWentWrong(name, began_at, CallFailure.TIMEOUT, said)
        except Exception as error:  # noqa: BLE001 - raised by the next after_fold
            self._fail(error)
            return
        finally:
            lane.looking = None
        if lane.look_wanted is not None and lane.look_wanted <= began_at:
            lane.look_wanted = None  # requested again meanwhile
        lane.look_told = False
        self._wake()

    def _saw(self, now: Instant) -> None:
        self._now, self._now_at_s = max(self._now, now), _monotonic_s()

    def _present(self) -> Instant:
        """Return the latest time of the shell, plus the time since then."""
        return after(self._now, _monotonic_s() - self._now_at_s)

    def _fail(self, error: Exception) -> None:
        self._defect = error
        self._wake()

    def _wake(self) -> None:
        if self._leader is not None:
            self._leader.wake()


async def _made(driver: FabricDriver, call: Call, started_s: float) -> Outcome:
    if isinstance(call, AttachCall):
        candidates = await driver.attach(AttachOrder(call.machine, call.model, call.type, call.trace))
        return AttachDone(call.order, call.attempt, candidates, took_s=_monotonic_s() - started_s)
    was_there = await driver.detach(DetachOrder(call.machine, call.device_id, call.type, call.trace))
    return DetachDone(call.order, call.attempt, was_gone=not was_there, took_s=_monotonic_s() - started_s)


def _moments_of(lane: _Lane) -> list[Instant]:
    moments = [call.start_by for call in lane.queue]
    if lane.look_wanted is not None and lane.looking is None:
        moments.append(lane.look_wanted)
    return moments if lane.look_told else [*moments, _AT_ONCE]


def _tasks_of(lane: _Lane) -> list[asyncio.Task[None]]:
    tasks = list(lane.running.values())
    return tasks if lane.looking is None else [*tasks, lane.looking]


def _wrong(call: Call, failure: CallFailure, error: str) -> CallWentWrong:
    return CallWentWrong(call.order, call.attempt, failure, error[:ERROR_CHARS_MAX])


def _monotonic_s() -> float:
    return asyncio.get_running_loop().time()
