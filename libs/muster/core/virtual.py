"""Virtual time: one log in memory, the clock that stamps it, and the cores that fold it.

The work of the broker and the shells in production happens here in memory and at once. A draft becomes a fact with an
id, a sequence and a time, and every core folds it. The cores decide until none of them has a draft left. Then the clock
jumps to the next time at which a core could decide, or at which an outside action is due. Nothing is random and nothing
waits: the same input gives exactly the same log.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from muster.core.fact import Core, Draft, Fact
from muster.core.instant import Instant, after
from muster.schemas.base import Payload
from muster.schemas.registry import StreamRole, fact_type

STEPS_MAX = 1_000
"""Default limit of steps at one time of virtual time."""

Action = Callable[[], object]
"""An action from outside; its result is ignored."""
Watch = Callable[[Fact], None]
"""Called with every fact, after all cores folded it."""


class Folding(Protocol):
    """An object that folds facts: a core, or a part of one."""

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        ...


FoldingT = TypeVar("FoldingT", bound=Folding)


class NeverSettlesError(RuntimeError):
    """A core keeps deciding, or keeps requesting a wake-up at a time that has passed."""

    def __init__(self, writer: str, problem: str, *, steps_max: int) -> None:
        super().__init__(
            f"{writer}: {problem}, after {steps_max} steps in which time did not pass; "
            "a decision must not follow again from a state that has folded it"
        )
        self.writer = writer
        """The service of the core."""


class DraftInvalidError(ValueError):
    """A draft cannot be a fact of this log: its writer may not write it there, or its body has another type."""

    def __init__(self, writer: str, draft: Draft, problem: str) -> None:
        super().__init__(f"{writer} {draft.kind} {draft.subject_id} {draft.name}: {problem}")
        self.writer = writer
        self.draft = draft


class VirtualCluster:
    """The log of one cluster, or of the federation, with its clock and its cores. Pure; subclasses add what they
    simulate.

    Cores decide in the order of `cores`, and each folds the decisions of those before it first.
    """

    name: str
    """The cluster that every fact is about; "" for the federation's log, where each draft has its cluster."""
    now: Instant
    """The present time. Set it only forwards."""
    seq: int
    """Sequence of the newest fact, 0 if there is none."""
    time: Instant
    """Time of the newest fact."""
    log: list[Fact]
    """Facts, oldest first."""
    keeps_log: bool
    """Whether facts are added to `log`."""
    cores: dict[str, Core]
    """By the name of the service that writes the core's decisions."""
    watch: Watch | None

    def __init__(
        self,
        name: str,
        *,
        start: Instant,
        cores: Mapping[str, Core] | None = None,
        role: StreamRole = StreamRole.LOG,
        tick_ns: int = 1,
        steps_max: int = STEPS_MAX,
        keeps_log: bool = True,
        id_prefix: str = "f",
        watch: Watch | None = None,
    ) -> None:
        """Start with an empty log. Everything happens at multiples of `tick_ns`, rounded up."""
        self.name, self.role = name, role
        self.now = self.time = start
        self.seq = 0
        self.log = []
        self.cores = dict(cores or {})
        self.watch = watch
        self._tick_ns, self._steps_max = tick_ns, steps_max
        self.keeps_log, self._id_prefix = keeps_log, id_prefix
        self._news = set(self.cores)
        self._actions: list[tuple[Instant, int, Action]] = []
        self._posted = 0

    # --- the log -------------------------------------------------------------------------------------------------

    def write(
        self,
        writer: str,
        kind: str,
        subject_id: str,
        name: str,
        payload: Payload,
        *,
        causes: Iterable[str] = (),
        trace: str = "",
        cluster: str = "",
    ) -> Fact:
        """Append a fact of any service at this time. Raise DraftInvalidError."""
        return self.append(writer, Draft(kind, subject_id, name, payload, tuple(causes), trace, cluster=cluster))

    def append(self, writer: str, draft: Draft, *, fact_id: str = "") -> Fact:
        """Append a draft as a fact; all cores have folded it on return.

        `fact_id` is the id of a fact that another log has too. Raise DraftInvalidError.
        """
        row = fact_type(self.role, writer, draft.kind, draft.name)
        if row is None:
            problem = f"is not the writer of it in '{self.role}'; the table of facts says who is"
            raise DraftInvalidError(writer, draft, problem)
        if not isinstance(draft.payload, row.payload):
            problem = f"body is {type(draft.payload).__name__}, not {row.payload.__name__}"
            raise DraftInvalidError(writer, draft, problem)
        self.seq += 1
        self.time = self.now
        fact = Fact(
            fact_id or f"{self._id_prefix}{self.seq}", self.seq, self.now, self.name or draft.cluster, writer,
            draft.kind, draft.subject_id, draft.name, draft.causes, draft.trace, draft.payload,
        )  # fmt: skip
        if self.keeps_log:
            self.log.append(fact)
        for each, core in self.cores.items():
            core.apply(fact)
            if self.is_news(each, fact):
                self._news.add(each)
        if self.watch is not None:
            self.watch(fact)
        return fact

    def append_all(self, writer: str, drafts: Iterable[Draft]) -> list[Fact]:
        """Append drafts in their order, and return the facts."""
        return [self.append(writer, draft) for draft in drafts]

    def is_news(self, writer: str, fact: Fact) -> bool:  # noqa: ARG002 - for subclasses that know better
        """Return whether this core decides because of this fact; if not, it decides at its own wake-ups only."""
        return True

    # --- decisions -----------------------------------------------------------------------------------------------

    def decide(self, writer: str) -> list[Draft]:
        """Return the drafts of one core now, without appending them."""
        return self.cores[writer].decide(self.now)

    def decide_once(self, writer: str) -> list[Fact]:
        """Append one decision of one core, and return the facts."""
        self._news.discard(writer)
        return self.append_all(writer, self.decide(writer))

    def step(self, *, ask_all: bool = False) -> list[Fact]:
        """Append one decision of each core that has news or a due wake-up, with `ask_all` of every core."""
        facts: list[Fact] = []
        for writer, core in tuple(self.cores.items()):
            if ask_all or writer in self._news or _is_due(core, self.now):
                facts += self.decide_once(writer)
        return facts

    def settle(self) -> list[Fact]:
        """Let every core decide until none has a draft left, and return the facts.

        Raise NeverSettlesError after `steps_max` steps.
        """
        self._news.update(self.cores)
        return self._settle()

    def settle_core(self, writer: str, *, only: Callable[[Draft], bool] | None = None) -> list[Fact]:
        """Let one core decide until it has no draft left, without the others. `only` filters its drafts.

        Return the facts. Raise NeverSettlesError after `steps_max` decisions.
        """
        return self._until_settled(lambda: self.append_all(writer, filter(only or _any, self.decide(writer))))

    def _settle(self) -> list[Fact]:
        return self._until_settled(self.step)

    def _until_settled(self, step: Callable[[], list[Fact]]) -> list[Fact]:
        facts: list[Fact] = []
        for _ in range(self._steps_max):
            found = step()
            if not found:
                return facts
            facts += found
        last = facts[-1]
        problem = f"decides {last.kind} {last.subject_id} {last.name} and more"
        raise NeverSettlesError(last.writer, problem, steps_max=self._steps_max)

    # --- time ----------------------------------------------------------------------------------------------------

    def at(self, moment: Instant, act: Action) -> None:
        """Schedule an outside action; actions of equal times run in the order of the calls."""
        self._posted += 1
        heapq.heappush(self._actions, (self._on_tick(moment), self._posted, act))

    def skip(self, seconds: float) -> None:
        """Let time pass without letting any core decide."""
        self.now = after(self.now, seconds)

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass. Raise NeverSettlesError."""
        self.advance_to(after(self.now, seconds))

    def advance_to(self, until: Instant) -> None:
        """Let time pass up to and including `until`. Raise NeverSettlesError."""
        for _ in self.moments(until):
            pass

    def moments(self, until: Instant, *, arrivals: Iterable[tuple[Instant, Action]] = ()) -> Iterator[Instant]:
        """Let time pass up to and including `until`; yield each time after everything that happens at it.

        `arrivals` are further outside actions, earliest first, taken one by one and before those of `at`. Raise
        NeverSettlesError.
        """
        coming = iter(arrivals)
        arrival = next(coming, None)
        self._news.update(self.cores)
        idle = 0
        while True:
            first = self.seq
            while arrival is not None and self._on_tick(arrival[0]) <= self.now:
                arrival[1]()
                arrival = next(coming, None)
            self._act_and_settle()
            idle = self._count_idle(idle) if self.seq == first else 0
            yield self.now
            due = self.next_moment()
            if arrival is not None:
                due = _earlier(due, self._on_tick(arrival[0]))
            if due is None or due > until:
                break
            self.now = due
        self.now = max(self.now, until)

    def next_moment(self) -> Instant | None:
        """Return when something could happen next, at least a tick after now; None if never."""
        due: Instant | None = None
        for core in self.cores.values():
            due = _earlier(due, core.next_wakeup())
        if due is not None:
            due = self._on_tick(due)
        if self._actions:
            due = _earlier(due, self._actions[0][0])
        return due if due is None or due > self.now else Instant(self.now + self._tick_ns)

    def _act_and_settle(self) -> None:
        """Run due actions, and the actions that they and the decisions after them post for the same time."""
        for _ in range(self._steps_max):
            for act in self._take_due():
                act()
            self._settle()
            if not self._actions or self._actions[0][0] > self.now:
                return
        raise NeverSettlesError("outside", "actions post others for the same moment", steps_max=self._steps_max)

    def _take_due(self) -> list[Action]:
        due: list[Action] = []
        while self._actions and self._actions[0][0] <= self.now:
            due.append(heapq.heappop(self._actions)[2])
        return due

    def _count_idle(self, idle: int) -> int:
        """Count times in a row at which nothing was appended although a core is due that has just decided."""
        late = next((writer for writer, core in self.cores.items() if _is_due(core, self.now)), "")
        if not late:
            return 0
        if idle >= self._steps_max:
            problem = "has nothing to decide and requests a wake-up at a time that has passed"
            raise NeverSettlesError(late, problem, steps_max=self._steps_max)
        return idle + 1

    def _on_tick(self, moment: Instant) -> Instant:
        return Instant(-(-moment // self._tick_ns) * self._tick_ns)

    # --- recovery ------------------------------------------------------------------------------------------------

    def replace(self, writer: str, core: Core) -> None:
        """Replace the core of this service by another one, which folded what it needs."""
        self.cores[writer] = core
        self._news.add(writer)

    def snapshot(self) -> list[Fact]:
        """Return the state facts of all cores, as a checkpoint at the newest sequence has them."""
        return [fact for writer, core in self.cores.items() for fact in self.state_facts(writer, core.snapshot())]

    def state_facts(self, writer: str, drafts: Iterable[Draft]) -> list[Fact]:
        """Return drafts of one service's state as the facts of a checkpoint; nothing is appended."""
        return [
            Fact(
                f"state-{writer}-{draft.kind}-{draft.subject_id}", self.seq, self.time, self.name or draft.cluster,
                writer, draft.kind, draft.subject_id, draft.name, draft.causes, draft.trace, draft.payload,
            )
            for draft in drafts
        ]  # fmt: skip


def recover(core: FoldingT, snapshot: Iterable[Fact], log: Iterable[Fact] = ()) -> FoldingT:
    """Fold a snapshot, then the log after it, and return the core. Without a snapshot, fold the whole log."""
    seq = 0
    for fact in snapshot:
        core.apply(fact)
        seq = max(seq, fact.seq)
    for fact in log:
        if fact.seq > seq:
            core.apply(fact)
    return core


def _any(_: Draft) -> bool:
    return True


def _is_due(core: Core, now: Instant) -> bool:
    wakeup = core.next_wakeup()
    return wakeup is not None and wakeup <= now


def _earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
