"""Where facts travel.

Cluster log:  muster.<cluster>.<writer>.<kind>.<id>.<fact>       stream LOG_<cluster>
Federation:   muster.fed.<writer>.<cluster or _>.<kind>.<id>.<fact>   stream FED
Reports:      fedup.<cluster>.<writer>.<kind>.<id>.<fact>         stream FED_UP (sources only)
Fences:       muster.<cluster or fed>.<service>.fence
"""

import re
from dataclasses import dataclass

from muster.schemas.registry import StreamRole

FED_STREAM = "FED"
FED_UP_STREAM = "FED_UP"
DEAD_STREAM = "DEAD"
NO_CLUSTER = "_"
FENCE = "fence"

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def token(text: str) -> str:
    """An id as one subject token: letters, digits, `-` and `_` stay, every other byte becomes `=XX`.

    Node names may hold dots, which separate tokens; `untoken` gives them back.
    """
    return _UNSAFE.sub(lambda match: "".join(f"={byte:02X}" for byte in match[0].encode()), text)


def untoken(text: str) -> str:
    """The id that `token` made a subject token of. Raises UnicodeDecodeError if it made none of this."""
    if "=" not in text:
        return text
    return re.sub(r"(?:=[0-9A-F]{2})+", lambda match: bytes.fromhex(match[0].replace("=", "")).decode(), text)


@dataclass(frozen=True, slots=True)
class LogName:
    """One log: a cluster's, the federation's, or the reports. cluster: "" for FED and FED_UP."""

    role: StreamRole
    cluster: str = ""

    @property
    def stream(self) -> str:
        """Name of the JetStream stream."""
        match self.role:
            case StreamRole.LOG:
                return f"LOG_{self.cluster}"
            case StreamRole.FED:
                return FED_STREAM
            case StreamRole.FED_UP:
                return FED_UP_STREAM

    @property
    def scope(self) -> str:
        """Second token of the log's subjects: the cluster, or `fed`."""
        return self.cluster if self.role is StreamRole.LOG else "fed"

    @property
    def subjects(self) -> str:
        """Wildcard over every fact of the log."""
        return "fedup.>" if self.role is StreamRole.FED_UP else f"muster.{self.scope}.>"


def cluster_log(cluster: str) -> LogName:
    """The log of a cluster."""
    return LogName(StreamRole.LOG, cluster)


FED_LOG = LogName(StreamRole.FED)
FED_UP_LOG = LogName(StreamRole.FED_UP)


def fact_subject(log: LogName, *, writer: str, kind: str, subject_id: str, name: str, cluster: str = "") -> str:
    """Subject of one fact. cluster: whom a federation fact is addressed to; empty is nobody in particular.

    subject_id and cluster may be `*` for a pattern.
    """
    ident = subject_id if subject_id == "*" else token(subject_id)
    if log.role is StreamRole.LOG:
        return f"muster.{log.cluster}.{writer}.{kind}.{ident}.{name}"
    if log.role is StreamRole.FED:
        return f"muster.fed.{writer}.{cluster or NO_CLUSTER}.{kind}.{ident}.{name}"
    return f"fedup.{cluster or '*'}.{writer}.{kind}.{ident}.{name}"


def fence_subject(log: LogName, service: str) -> str:
    """The literal subject that every batch of `service` is guarded by."""
    return f"muster.{log.scope}.{service}.{FENCE}"


@dataclass(frozen=True, slots=True)
class ParsedSubject:
    """A fact's subject, taken apart. cluster: whom it is about, "" if a federation fact is addressed to nobody."""

    cluster: str
    writer: str
    kind: str
    subject_id: str
    name: str


def parse_subject(log: LogName, subject: str) -> ParsedSubject | None:
    """Take a subject of `log` apart; None if it has not the shape of a fact there, or its id is no text.

    A copy of a cluster's log holds what that cluster's broker stored, whatever the subject: of another it says nothing.
    """
    try:
        return _parsed(log, subject)
    except UnicodeDecodeError:  # `=FF`: whoever may write facts of a kind may write any token as their id
        return None


def _parsed(log: LogName, subject: str) -> ParsedSubject | None:
    parts = subject.split(".")
    if log.role is not StreamRole.FED_UP and parts[:2] != ["muster", log.scope]:
        return None
    if log.role is StreamRole.LOG:
        if len(parts) == 6:
            return ParsedSubject(parts[1], parts[2], parts[3], untoken(parts[4]), parts[5])
        if len(parts) == 4 and parts[3] == FENCE:
            return ParsedSubject(parts[1], parts[2], "log", parts[2], FENCE)
        return None
    if log.role is StreamRole.FED:
        if len(parts) == 7:
            cluster = "" if parts[3] == NO_CLUSTER else parts[3]
            return ParsedSubject(cluster, parts[2], parts[4], untoken(parts[5]), parts[6])
        if len(parts) == 4 and parts[3] == FENCE:
            return ParsedSubject("", parts[2], "log", parts[2], FENCE)
        return None
    if len(parts) == 6 and parts[0] == "fedup":
        return ParsedSubject(parts[1], parts[2], parts[3], untoken(parts[4]), parts[5])
    return None


def telemetry_subject(cluster: str, node: str) -> str:
    """Utilisation of one node's devices, one message per interval. node: `*` for a pattern."""
    return f"telemetry.{cluster}.{node if node == '*' else token(node)}"


def output_subject(cluster: str, job_id: str) -> str:
    """Output lines of one job."""
    return f"logs.{cluster}.{job_id}"


def dead_subject(stream: str, seq: int) -> str:
    """Dead letter of one message; a subject of its own, so that a guard keeps it single for ever."""
    return f"dead.{stream}.{seq}"


def dead_draft_subject(stream: str, key: str) -> str:
    """Dead letter of a fact that was never stored because the log refuses it. key: a hash of its subject."""
    return f"dead.{stream}.draft-{key}"


def query_subject(cluster: str, service: str, name: str) -> str:
    """Where a question to a service's core is asked."""
    return f"query.{cluster}.{service}.{name}"


def view_subject(cluster: str, audience: str, what: str) -> str:
    """Where dashboards listen. audience: a team, or `public`.

    what: `slice`, `packed` (the same, deflated), `telemetry`, or `output.<job>`.
    """
    return f"view.{cluster}.{audience}.{what}"
