"""Map a user and the user's groups to a principal with a role and teams. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core.instant import NS_PER_S, Instant
from muster.gateway.authorise import SENDER_FIELD, Principal, rank
from muster.gateway.problems import ProblemError, forbidden
from muster.schemas.access import Role
from muster.schemas.base import LABEL_CHARS_MAX

GROUPS_MAX = 1_024
"""Maximum number of a user's groups; a user with more is refused, since an ignored group might count."""
_CURE = "Ask an administrator to list one of your groups under `identity.groups`."


class RejectedTokenError(Exception):
    """The token is not valid (401); the message gives the reason."""

    def __init__(self, message: str, *, remember: bool = True) -> None:
        super().__init__(message)
        self.remember = remember


@dataclass(frozen=True, slots=True)
class User:
    """The verified user of a token, with the names of the identity provider."""

    name: str
    groups: tuple[str, ...]
    expires_at: Instant | None
    """Expiry of the token, if known."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of one group's members."""

    role: Role
    teams: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Grants:
    """The permissions of groups."""

    by_group: Mapping[str, Grant] = field(default_factory=dict)
    """By the name of the group with its prefix."""
    without_group: Role | None = None
    """Role of users without any such group; None to refuse them."""

    def principal(self, user: User, *, prefix: str) -> Principal:
        """Return the user's principal: the highest role of all its groups, and the teams of all of them.

        Raises RejectedTokenError for an invalid name, and ProblemError (403) if none of the groups has permissions.
        """
        name = _name(user.name, prefix=prefix)
        if len(user.groups) > GROUPS_MAX:
            raise _no_group(f"{name} is in more than {GROUPS_MAX} groups")
        found = [grant for group in user.groups if (grant := self.by_group.get(prefix + group)) is not None]
        if found:
            role = max((grant.role for grant in found), key=rank)
            teams = frozenset().union(*(grant.teams for grant in found))
            return Principal(name, role, teams, _end_s(user))
        if self.without_group is None:
            raise _no_group(f"{name} is in no group that may use this API")
        return Principal(name, self.without_group, expires_at_s=_end_s(user))


def _end_s(user: User) -> int | None:
    return None if user.expires_at is None else user.expires_at // NS_PER_S


def _name(name: str, *, prefix: str) -> str:
    most = LABEL_CHARS_MAX - len(prefix)
    if not 1 <= len(name) <= most or not name.isprintable() or name != name.strip():
        raise RejectedTokenError(f"the user's name is not a valid principal: 1 to {most} printable characters")
    return prefix + name


def _no_group(detail: str) -> ProblemError:
    return forbidden(detail, field=SENDER_FIELD, cure=_CURE)
