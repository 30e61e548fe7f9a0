"""Decide what a principal may do. Pure: it depends on the principal and the request only.

What a principal sees of other teams' jobs is a setting of its role; `visibility` applies it.
"""

from dataclasses import dataclass

from muster.gateway.problems import ProblemError, forbidden
from muster.schemas.access import Role

SENDER_FIELD = "Authorization"
"""The field that a refusal names when the request is correct, but its sender may not make it."""
_RANK = {role: rank for rank, role in enumerate((Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN))}


def rank(role: Role) -> int:
    """Return the rank of a role among all roles, for comparisons only."""
    return _RANK[role]


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user or client."""

    name: str
    role: Role
    teams: frozenset[str] = frozenset()
    """Teams that a submitter acts for; an operator acts for all."""
    expires_at_s: int | None = None
    """Time from which the token is refused, in seconds since the Unix epoch; None: never."""

    def is_at_least(self, role: Role) -> bool:
        """Return whether this principal may do everything that `role` may."""
        return rank(self.role) >= rank(role)

    def acts_for(self, team: str) -> bool:
        """Return whether it may submit, cancel, hold, release and prioritize jobs of this team."""
        return self.is_at_least(Role.OPERATOR) or (self.is_at_least(Role.SUBMITTER) and team in self.teams)


def refuse_unless_acting_for(principal: Principal, team: str, *, verb: str) -> None:
    """Raise ProblemError (403) unless the principal acts for the team that owns the job."""
    if not principal.acts_for(team):
        raise _refusal(principal, f"{verb} for team {team!r}", field="team", needed=Role.OPERATOR)


def refuse_unless(principal: Principal, role: Role, *, verb: str) -> None:
    """Raise ProblemError (403) unless the principal has at least the role."""
    if not principal.is_at_least(role):
        raise _refusal(principal, verb, field=SENDER_FIELD, needed=role)


def refuse_priority_above_role(principal: Principal, priority: int, *, most: int) -> None:
    """Raise ProblemError (403) if the priority is above the role's maximum, `most`."""
    if priority > most:
        raise forbidden(
            f"priority {priority} is above {most}, the maximum of role {principal.role.value}",
            field="priority",
            cure=f"Ask for 0 to {most}, or ask an operator.",
        )


def force_refusal(principal: Principal, *, verb: str, field: str, told: str, holder: str) -> ProblemError:
    """Return a 403 refusal of a forced request. told, holder: the known jobs that the request would
    affect."""
    refusal = _refusal(principal, f"{verb} by force", field=field, needed=Role.OPERATOR).problem
    detail = f"{refusal.detail}: {told}" if told else refusal.detail
    return forbidden(detail, field=field, cure=refusal.cure, holder=holder)


def _refusal(principal: Principal, verb: str, *, field: str, needed: Role) -> ProblemError:
    teams = f" of {', '.join(sorted(principal.teams))}" if principal.teams else ""
    told = f"{principal.name} ({principal.role.value}{teams}) may not {verb}"
    return forbidden(told, field=field, cure=f"Ask an {needed.value}.")
