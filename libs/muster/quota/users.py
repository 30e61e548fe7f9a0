"""User queues: a queue with a template gets one queue below it for each principal that submits to it, on first use."""

import hashlib
import re

from muster.schemas.facts.queue import QueueSpec

TEMPLATE_NAME_MAX = 40
"""Maximum length of the name of a queue with a template, so that most of the user's name still fits behind it."""

USERS_MAX = 10_000
"""User queues below one queue with a template; jobs of further users go to that queue itself."""

NAME_MAX = 63
_HASH = 8
_NOT_IN_NAME = re.compile(r"[^a-z0-9]+")


def names(queue: str, principal: str) -> tuple[str, ...]:
    """Return the possible names of the principal's queue, best first: `<queue>-<principal>`, and the same with a hash.

    If the name had to be changed or cut, only the one with the hash, which distinguishes principals.
    """
    plain = _NOT_IN_NAME.sub("-", principal.lower()).strip("-")
    name = f"{queue}-{plain}"
    digest = hashlib.sha256(principal.encode()).hexdigest()[:_HASH]
    hashed = f"{name[: NAME_MAX - _HASH - 1].rstrip('-')}-{digest}"
    return (name, hashed) if plain == principal and len(name) <= NAME_MAX else (hashed,)


def user_queue(above: QueueSpec, name: str) -> QueueSpec:
    """Return the spec of a user queue, from the template of the queue above."""
    template = above.user_template
    assert template is not None
    return QueueSpec(
        name=name,
        parent=above.name,
        quota=template.quota,
        borrowing_limit=template.borrowing_limit,
        lending_limit=template.lending_limit,
        weight=template.weight,
    )
