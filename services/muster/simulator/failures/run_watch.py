"""The job's present run, as facts tell of it, and what the job's account hears of that."""

from dataclasses import dataclass, field

from muster.core import Fact, Instant
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import TERMINAL_PHASES
from muster.simulator.failures.account import Account

_NEVER = Instant(0)
_ENDS = frozenset(phase.value for phase in TERMINAL_PHASES)


@dataclass(slots=True)
class RunWatch:
    """job, attempt, nodes: of the run. since: it runs. is_ending: its pods ended, or are told to. given_up: the job."""

    account: Account
    job: str = ""
    attempt: int = 0
    nodes: frozenset[str] = frozenset()
    since: Instant = _NEVER
    is_running: bool = False
    is_ending: bool = False
    given_up: list[str] = field(default_factory=list)

    def watch(self, fact: Fact) -> None:
        """One fact of the job further."""
        if fact.kind != "job":
            return
        match fact.name:
            case "placed":
                assert isinstance(fact.payload, JobPlaced)
                self.job, self.attempt = fact.subject_id, fact.payload.attempt
                self.nodes = frozenset(slot.node for slot in fact.payload.slots)
                self.is_running = self.is_ending = False
            case "running":
                self.is_running, self.since = True, fact.time
                self.account.running(fact.time)
            case "checkpointed":
                self.account.checkpointed(fact.time)
            case "stop-requested":
                self.is_ending = True
            case "pods-exited":
                self.is_ending = True
                self.account.exited(fact.time)
            case "queued":
                self._ends(fact)
            case name if name in _ENDS:
                self.given_up.append(f"{name}: {getattr(fact.payload, 'reason', '')}")
                self._ends(fact)

    def _ends(self, fact: Fact) -> None:
        self.account.queued(fact.time)
        self.nodes, self.is_running, self.is_ending = frozenset(), False, False
