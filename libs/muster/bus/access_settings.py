"""Settings of access: what each role may do beyond its rank, and what one principal may ask for in a time."""

from pydantic import BaseModel, ConfigDict

from muster.schemas.access import Role


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RoleSettings(_Section):
    """Limits of one role. They hold for each principal by itself, whatever the number of its tokens."""


class AccessSettings(_Section):
    """One section for each role, so that an administrator changes one without repeating the others."""

    viewer: RoleSettings = RoleSettings()
    submitter: RoleSettings = RoleSettings()
    operator: RoleSettings = RoleSettings()
    admin: RoleSettings = RoleSettings()

    def of(self, role: Role) -> RoleSettings:
        """Return the section of a role."""
        sections = {
            Role.VIEWER: self.viewer,
            Role.SUBMITTER: self.submitter,
            Role.OPERATOR: self.operator,
            Role.ADMIN: self.admin,
        }
        return sections[role]
