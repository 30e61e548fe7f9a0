"""From a user and the user's groups to a principal with a role and teams. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core.instant import NS_PER_S, Instant
from muster.gateway.authorise import SENDER_FIELD, Principal, rank
from muster.gateway.problems import ProblemError, forbidden
from muster.schemas.access import Role
from muster.schemas.base import LABEL_CHARS_MAX

GROUPS_MAX = 1_024
"""Groups of one user that are looked at; a user of more is refused, since the ones left out might count."""
_CURE = "Ask an administrator to list one of your groups under `identity.groups`."


class RejectedTokenError(Exception):
    """The token proves nothing (401); the message says why. remember: the same token will not prove more soon."""

    def __init__(self, message: str, *, remember: bool = True) -> None:
        super().__init__(message)
        self.remember = remember


@dataclass(frozen=True, slots=True)
class User:
    """Whom a token was verified to belong to, in the words of the source. expires_at: end of the token, if known."""

    name: str
    groups: tuple[str, ...]
    expires_at: Instant | None


@dataclass(frozen=True, slots=True)
class Grant:
    """What members of one group may do."""

    role: Role
    teams: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Grants:
    """What groups may do, by the group's name with its prefix. without_group: role of users of no such group."""

    by_group: Mapping[str, Grant] = field(default_factory=dict)
    without_group: Role | None = None

    def principal(self, user: User, *, prefix: str) -> Principal:
        """Return the user's principal: the highest role of all its groups, and the teams of all of them.

        Raises RejectedTokenError for a name that cannot be a principal's, ProblemError (403) if no group counts.
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
        raise RejectedTokenError(f"the user's name is no principal: 1 to {most} printable characters are allowed")
    return prefix + name


def _no_group(detail: str) -> ProblemError:
    return forbidden(detail, field=SENDER_FIELD, cure=_CURE)
