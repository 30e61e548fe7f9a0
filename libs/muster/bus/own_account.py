"""Subjects between the account of one credential and the account with the streams. Pure.

NATS checks what a client publishes and subscribes, but not the reply subject of a request: the broker's answer, the
acknowledgement of a publication and deliveries of a consumer go to that subject, and a stream that takes the subject
stores them. So no credential is in the account with the streams (tested on nats-server 2.15, decision 44). Each is in
its own account, without streams, which imports what the credential may publish: an answer goes back through the import
into that account, whatever the reply subject, and no further.

An account without streams answers requests to JetStream's API itself, with an error. So the imports have the local
subjects `streams.$JS.API...`, and the account maps its client's publications to them.
"""

from itertools import count

from muster.bus.access import Rights
from muster.bus.names import API

LOCAL = "streams"
"""First token of JetStream's API, as an account without streams imports it."""
MAPPING = (f"{API}.>", f"{LOCAL}.{API}.>")
"""Mapping of published subjects to imports. The broker checks rights afterwards."""

SERVED = (
    f"{API}.INFO",
    f"{API}.STREAM.>",
    *(f"{API}.CONSUMER.{verb}.>" for verb in ("CREATE", "DELETE", "INFO", "LIST")),
    "$JS.ACK.>",
    *(f"{subjects}.>" for subjects in ("muster", "dead", "$KV", "$O", "query")),
)
"""What the account with the streams takes from those of credentials, each request answered once."""
SERVED_OFTEN = (f"{API}.CONSUMER.MSG.NEXT.>",)
"""Imports whose requests are answered any number of times."""

_TOLD = ("telemetry.", "logs.", "view.")
"""Publications to subscribers, including streams, that are never answered: those streams acknowledge nothing."""
_ANSWERS = ("_R_.", "_INBOX.")
_QUESTIONS = "query."


def local(subject: str) -> str:
    """Return the subject as the credential's account has it."""
    return f"{LOCAL}.{subject}" if subject.startswith(f"{API}.") else subject


def local_rights(rights: Rights) -> Rights:
    """Return the rights on the subjects of the credential's account."""
    return Rights(tuple(map(local, rights.publish)), rights.subscribe, tuple(map(local, rights.withheld)))


def asked(rights: Rights) -> tuple[str, ...]:
    """Return what the account imports to publish. Imports must not overlap: what another one holds is left out."""
    requests = (subject for subject in rights.publish if not subject.startswith((*_ANSWERS, *_TOLD)))
    wanted = tuple(dict.fromkeys(map(_import_of, requests)))
    return tuple(one for one in wanted if not any(one != other and is_within(one, other) for other in wanted))


def _import_of(subject: str) -> str:
    """Return the import of a subject. An answer to a subject that is imported without wildcards passes on through the
    import; an answer to a subject of an import with wildcards does not. So a fence, which has none, is imported with
    one; the client's permission to publish stays as narrow as its rights."""
    if subject.startswith(f"{API}.") or "*" in subject or subject.endswith(">"):
        return subject
    return f"{subject.rpartition('.')[0]}.*"


def told(rights: Rights) -> tuple[str, ...]:
    """Return the exports of the account to subscribers. The broker does not pass on messages of an import, so
    subscribers import them from here, and not from the account with the streams."""
    return tuple(subject for subject in rights.publish if subject.startswith(_TOLD))


def heard(rights: Rights) -> tuple[str, ...]:
    """Return what its client may listen to in other accounts."""
    return tuple(one for one in rights.subscribe if not one.startswith((*_ANSWERS, _QUESTIONS)))


def answered(rights: Rights) -> tuple[str, ...]:
    """Return the questions that the account exports an answer to."""
    return tuple(one for one in rights.subscribe if one.startswith(_QUESTIONS))


def is_within(subject: str, pattern: str) -> bool:
    """Return whether every subject that `subject` matches is one that `pattern` matches. Wildcards as in NATS."""
    wanted, given = pattern.split("."), subject.split(".")
    for index, expected in enumerate(wanted):
        if expected == ">":
            return len(given) > index
        if index >= len(given) or given[index] == ">" or expected not in ("*", given[index]):
            return False
    return len(wanted) == len(given)


def renamed(subject: str) -> str:
    """Return a local subject as an import writes it: its wildcards counted."""
    number = count(1)
    return ".".join(f"${next(number)}" if part == "*" else part for part in subject.split("."))
