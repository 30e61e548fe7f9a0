"""Who may do what. Pure: a principal and what is asked, nothing else.

What a principal reads of other teams' jobs is a setting of its role, and `visibility` applies it.
"""

from dataclasses import dataclass

from muster.gateway.problems import ProblemError, forbidden
from muster.schemas.access import Role

SENDER_FIELD = "Authorization"
"""What is wrong where nothing that was sent is, but who sent it."""
_RANK = {role: rank for rank, role in enumerate((Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN))}


def rank(role: Role) -> int:
    """Return how much a role may do, as a number that only comparisons have a use for."""
    return _RANK[role]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. teams: those a submitter acts for; an operator acts for all."""

    name: str
    role: Role
    teams: frozenset[str] = frozenset()
    expires_at_s: int | None = None
    """From when on the token is refused, in seconds since the Unix epoch; None: never."""

    def is_at_least(self, role: Role) -> bool:
        """Whether this principal may do what `role` may."""
        return rank(self.role) >= rank(role)

    def acts_for(self, team: str) -> bool:
        """Whether it may submit, cancel, hold, release and prioritise for this team."""
        return self.is_at_least(Role.OPERATOR) or (self.is_at_least(Role.SUBMITTER) and team in self.teams)


def refuse_unless_acting_for(principal: Principal, team: str, *, verb: str) -> None:
    """What happens to its jobs is a team's own affair. Raises ProblemError (403)."""
    if not principal.acts_for(team):
        raise _refusal(principal, f"{verb} for team {team!r}", field="team", needed=Role.OPERATOR)


def refuse_unless(principal: Principal, role: Role, *, verb: str) -> None:
    """Raises ProblemError (403) unless the principal has the role."""
    if not principal.is_at_least(role):
        raise _refusal(principal, verb, field=SENDER_FIELD, needed=role)


def refuse_priority_above_role(principal: Principal, priority: int, *, most: int) -> None:
    """Raise ProblemError (403) if the priority is above what the role may give. most: the role's maximum."""
    if priority > most:
        raise forbidden(
            f"priority {priority} is above {most}, the maximum of role {principal.role.value}",
            field="priority",
            cure=f"Ask for 0 to {most}, or ask an operator.",
        )


def force_refusal(principal: Principal, *, verb: str, field: str, told: str, holder: str) -> ProblemError:
    """403 to somebody who asks with force and may not ask at all. told, holder: what is known of who would be hurt."""
    refusal = _refusal(principal, f"{verb} by force", field=field, needed=Role.OPERATOR).problem
    detail = f"{refusal.detail}: {told}" if told else refusal.detail
    return forbidden(detail, field=field, cure=refusal.cure, holder=holder)


def _refusal(principal: Principal, verb: str, *, field: str, needed: Role) -> ProblemError:
    teams = f" of {', '.join(sorted(principal.teams))}" if principal.teams else ""
    told = f"{principal.name} ({principal.role.value}{teams}) may not {verb}"
    return forbidden(told, field=field, cure=f"Ask an {needed.value}.")
