"""Settings of access: what each role may do beyond its rank, and what one principal may ask for in a time."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from muster.schemas.access import Role
from muster.schemas.job import PRIORITY_MAX, Priority

OtherTeams = Literal["all", "outline", "nothing"]
"""all: their jobs in full. outline: without command and environment. nothing: no job of theirs, nor what names one."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


PerTime = Annotated[float, Field(gt=0, le=1_000_000)]
Burst = Annotated[int, Field(ge=1, le=10_000_000)]


class RoleSettings(_Section):
    """Limits of one role. They hold for each principal by itself, whatever the number of its tokens.

    A gateway counts what it answers itself, so that N replicas together allow up to N times as much.
    """

    priority_max: Priority = 100
    """Highest priority that a job may be given. Objects of Kubernetes may ask for as much as a submitter."""

    other_teams: OtherTeams = "outline"
    """What is shown of jobs of teams that the token does not name: `all`; `outline`, without command and environment;
    `nothing`."""

    requests_per_s: PerTime | None = None
    """HTTP requests per second, on average; None: any number."""

    requests_burst: Burst = 200
    """HTTP requests at once, while `requests_per_s` is set."""

    open_requests_max: Annotated[int, Field(ge=1)] | None = None
    """HTTP requests under way at one time, streams of facts (SSE) among them; None: any number."""

    writes_per_min: PerTime | None = None
    """Jobs submitted and other changes per minute, on average; None: any number. Each job of a batch counts as one, and
    each further 8 KiB of a job as one more."""

    writes_burst: Burst = 2_000
    """Jobs and other changes at once, while `writes_per_min` is set."""

    team_jobs_per_min: PerTime | None = None
    """Jobs per minute, on average, that all principals of the role together submit for one team; None: any number."""

    team_jobs_burst: Burst = 10_000
    """Jobs of one team at once, while `team_jobs_per_min` is set."""


class ViewerSettings(RoleSettings):
    """Limits of viewers."""

    requests_per_s: PerTime | None = 50
    open_requests_max: Annotated[int, Field(ge=1)] | None = 128
    writes_per_min: PerTime | None = 60
    writes_burst: Burst = 60


class SubmitterSettings(RoleSettings):
    """Limits of submitters."""

    requests_per_s: PerTime | None = 50
    open_requests_max: Annotated[int, Field(ge=1)] | None = 128
    writes_per_min: PerTime | None = 600
    team_jobs_per_min: PerTime | None = 3_000


class OperatorSettings(RoleSettings):
    """Limits of a role that acts for every team."""

    priority_max: Priority = PRIORITY_MAX
    other_teams: OtherTeams = "all"


class AccessSettings(_Section):
    """One section for each role, so that an administrator changes one without repeating the others.

    Operators and admins may ask for any number of things unless it is set.
    """

    viewer: ViewerSettings = ViewerSettings()
    """Limits of each viewer."""

    submitter: SubmitterSettings = SubmitterSettings()
    """Limits of each submitter, and of the teams that submitters submit for."""

    operator: OperatorSettings = OperatorSettings()
    """Limits of each operator."""

    admin: OperatorSettings = OperatorSettings()
    """Limits of each admin."""

    def of(self, role: Role) -> RoleSettings:
        """Return the section of a role."""
        sections: dict[Role, RoleSettings] = {
            Role.VIEWER: self.viewer,
            Role.SUBMITTER: self.submitter,
            Role.OPERATOR: self.operator,
            Role.ADMIN: self.admin,
        }
        return sections[role]
