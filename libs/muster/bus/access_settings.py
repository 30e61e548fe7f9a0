"""Settings of access: what each role may do beyond its rank, and what one principal may ask for in a time."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from muster.schemas.access import Role
from muster.schemas.job import PRIORITY_MAX, Priority

OtherTeams = Literal["all", "outline", "nothing"]
"""all: their jobs in full. outline: without command and environment. nothing: no job of theirs, nor what names one."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RoleSettings(_Section):
    """Limits of one role. They hold for each principal by itself, whatever the number of its tokens.

    priority_max: highest priority that it may give a job. Objects of Kubernetes may ask for as much as a submitter.
    other_teams: what it reads of jobs of teams that its token does not name.
    """

    priority_max: Priority = 100
    other_teams: OtherTeams = "outline"


class OperatorSettings(RoleSettings):
    """Limits of a role that acts for every team.

    priority_max: highest priority that it may give a job. other_teams: as of every role.
    """

    priority_max: Priority = PRIORITY_MAX
    other_teams: OtherTeams = "all"


class AccessSettings(_Section):
    """One section for each role, so that an administrator changes one without repeating the others.

    viewer, submitter, operator, admin: limits of the role.
    """

    viewer: RoleSettings = RoleSettings()
    submitter: RoleSettings = RoleSettings()
    operator: OperatorSettings = OperatorSettings()
    admin: OperatorSettings = OperatorSettings()

    def of(self, role: Role) -> RoleSettings:
        """Return the section of a role."""
        sections: dict[Role, RoleSettings] = {
            Role.VIEWER: self.viewer,
            Role.SUBMITTER: self.submitter,
            Role.OPERATOR: self.operator,
            Role.ADMIN: self.admin,
        }
        return sections[role]
