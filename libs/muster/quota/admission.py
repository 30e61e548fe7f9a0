"""Admission rules of a queue: the teams that may submit to it, and the highest priority."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.quota.policy import DEPTH_MAX
from muster.quota.users import names
from muster.schemas.facts.queue import EVERY_TEAM, QueueSpec
from muster.schemas.job import PRIORITY_MAX


@dataclass(frozen=True, slots=True)
class Admission:
    """The rules of one queue, including the rules inherited from the queues above."""

    closed: bool = False
    """Whether the queue takes no new jobs."""
    teams: frozenset[str] = frozenset()
    """Teams that may submit: the teams listed by this queue and the queues above, and the names of these queues."""
    teams_of_user: frozenset[str] = frozenset()
    """Teams of which only the owner of the user queue may submit, if this queue is one or is below one."""
    template: str = ""
    """The queue with the `user_template` directly above the user queue; "" if there is no user queue."""
    user_queue: str = ""
    """Name of the user queue: this queue, or one above it."""
    priority_max: int = PRIORITY_MAX
    """Highest priority of its jobs."""

    def takes_from(self, team: str, principal: str) -> bool:
        """Return whether this principal may submit a job of this team."""
        if _names(self.teams, team):
            return True
        return _names(self.teams_of_user, team) and self.user_queue in names(self.template, principal)


def admissions(specs: Mapping[str, QueueSpec]) -> dict[str, Admission]:
    """Return the rules of every queue of one cluster. A cycle, possible in a log with gaps, is cut."""
    found: dict[str, Admission] = {}
    for spec in specs.values():
        for one in reversed(up(spec.name, specs)):
            if one.name not in found:
                above = specs.get(one.parent or "")
                found[one.name] = _admission(one, above, found.get(one.parent or "", Admission()))
    return found


def up(name: str, specs: Mapping[str, QueueSpec]) -> tuple[QueueSpec, ...]:
    """Return the queue and the queues above it, each once, as far as they exist."""
    path: dict[str, QueueSpec] = {}
    above = specs.get(name)
    while above is not None and above.name not in path and len(path) < DEPTH_MAX:
        path[above.name] = above
        above = specs.get(above.parent or "")
    return tuple(path.values())


def _names(teams: frozenset[str], team: str) -> bool:
    return team in teams or EVERY_TEAM in teams


def _admission(spec: QueueSpec, above: QueueSpec | None, inherited: Admission) -> Admission:
    named = frozenset((spec.name, *spec.teams))
    teams, of_user = named | inherited.teams, inherited.teams_of_user
    template, user_queue = inherited.template, inherited.user_queue
    if above is not None and above.user_template is not None:
        teams, of_user = named, inherited.teams | of_user
        template, user_queue = above.name, spec.name
    return Admission(
        closed=spec.closed,
        teams=teams,
        teams_of_user=of_user - teams,
        template=template,
        user_queue=user_queue,
        priority_max=inherited.priority_max if spec.priority_max is None else spec.priority_max,
    )
