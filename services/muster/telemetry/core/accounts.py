"""What teams' jobs used of GPUs, day by day: folded from the reports of jobs, each of which says all until then."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.core import Draft, Instant
from muster.core.instant import NS_PER_S
from muster.schemas.facts.telemetry import ACCOUNTS_A_DAY_MAX, DayUseState, JobUseReported, TeamUse, Use
from muster.schemas.registry import STATE_NAME

USAGE = "usage"
"""Kind of the states that days have in checkpoints; the subject is the day's number."""
DAYS_KEPT = 35
S_PER_DAY = 86_400
OTHERS = ("other", "other")
"""Whom those count for who come when a day has all the accounts that it may have."""
Whose = tuple[str, str]
"""(team, queue)."""


@dataclass(slots=True)
class Account:
    """What one team's jobs used in one queue. Fields: see `Use`."""

    energy_j: float = 0.0
    measured_s: float = 0.0
    idle_s: float = 0.0

    def add(self, more: "Account") -> None:
        """Both together."""
        self.energy_j += more.energy_j
        self.measured_s += more.measured_s
        self.idle_s += more.idle_s


Day = dict[Whose, Account]


def day_of(at: Instant) -> int:
    """Days since the Unix epoch, in UTC."""
    return at // (S_PER_DAY * NS_PER_S)


def added(now: Use, before: Use | None) -> Account:
    """What came between two reports of one job."""
    known = before or Use()
    return Account(
        max(0.0, now.energy_j - known.energy_j),
        max(0.0, now.measured_s - known.measured_s),
        max(0.0, now.idle_s - known.idle_s),
    )


class Accounts:
    """Of the last `DAYS_KEPT` days. What a report adds counts on the day on which it was reported."""

    def __init__(self) -> None:
        self._days: dict[int, Day] = {}

    def report(self, at: Instant, reported: JobUseReported, before: Use | None) -> None:
        """A job's report. before: what was reported of it last."""
        day = self._days.setdefault(day_of(at), {})
        whose = (reported.team, reported.queue)
        if whose not in day and len(day) >= ACCOUNTS_A_DAY_MAX - 1:
            whose = OTHERS
        day.setdefault(whose, Account()).add(added(reported.use, before))
        while len(self._days) > DAYS_KEPT:
            del self._days[min(self._days)]

    def restore(self, state: DayUseState) -> None:
        """A day from a checkpoint."""
        self._days[state.day] = {
            (one.team, one.queue): Account(one.energy_j, one.measured_s, one.idle_s) for one in state.teams
        }

    def since(self, day: int) -> Mapping[Whose, Account]:
        """What was used from that day on."""
        found: defaultdict[Whose, Account] = defaultdict(Account)
        for number, accounts in self._days.items():
            if number >= day:
                for whose, account in accounts.items():
                    found[whose].add(account)
        return found

    def snapshot(self) -> Iterator[Draft]:
        """State facts, one for each day."""
        for day, accounts in self._days.items():
            teams = tuple(
                TeamUse(team=team, queue=queue, energy_j=one.energy_j, measured_s=one.measured_s, idle_s=one.idle_s)
                for (team, queue), one in accounts.items()
            )
            yield Draft(USAGE, str(day), STATE_NAME, DayUseState(day=day, teams=teams))
