"""Subjects of facts.

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
    """Encode an id as one subject token: letters, digits, `-` and `_` stay, every other byte becomes `=XX`.

    Node names may hold dots, which separate tokens; `untoken` restores them.
    """
    return _UNSAFE.sub(lambda match: "".join(f"={byte:02X}" for byte in match[0].encode()), text)


def untoken(text: str) -> str:
    """Decode a subject token of `token`. Raises UnicodeDecodeError for an invalid token."""
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
        """Return the name of the JetStream stream."""
        match self.role:
            case StreamRole.LOG:
                return f"LOG_{self.cluster}"
            case StreamRole.FED:
                return FED_STREAM
            case StreamRole.FED_UP:
                return FED_UP_STREAM

    @property
    def scope(self) -> str:
        """Return the second token of the log's subjects: the cluster, or `fed`."""
        return self.cluster if self.role is StreamRole.LOG else "fed"

    @property
    def subjects(self) -> str:
        """Return the wildcard of every fact of the log."""
        return "fedup.>" if self.role is StreamRole.FED_UP else f"muster.{self.scope}.>"


def cluster_log(cluster: str) -> LogName:
    """Return the log of a cluster."""
    return LogName(StreamRole.LOG, cluster)


FED_LOG = LogName(StreamRole.FED)
FED_UP_LOG = LogName(StreamRole.FED_UP)


def fact_subject(log: LogName, *, writer: str, kind: str, subject_id: str, name: str, cluster: str = "") -> str:
    """Return the subject of one fact. cluster: addressee of a federation fact; empty for none.

    subject_id and cluster may be `*` for a pattern.
    """
    ident = subject_id if subject_id == "*" else token(subject_id)
    if log.role is StreamRole.LOG:
        return f"muster.{log.cluster}.{writer}.{kind}.{ident}.{name}"
    if log.role is StreamRole.FED:
        return f"muster.fed.{writer}.{cluster or NO_CLUSTER}.{kind}.{ident}.{name}"
    return f"fedup.{cluster or '*'}.{writer}.{kind}.{ident}.{name}"


def fence_subject(log: LogName, service: str) -> str:
    """Return the literal subject that guards every batch of `service`."""
    return f"muster.{log.scope}.{service}.{FENCE}"


@dataclass(frozen=True, slots=True)
class ParsedSubject:
    """The parts of a fact's subject. cluster: the addressee of a federation fact, "" for none."""

    cluster: str
    writer: str
    kind: str
    subject_id: str
    name: str


def parse_subject(log: LogName, subject: str) -> ParsedSubject | None:
    """Parse a subject of `log`; None if it does not have the form of a fact there, or its id is not text. A copy of
    a cluster's log holds all messages of that cluster's broker: a subject of another cluster is not parsed."""
    try:
        return _parsed(log, subject)
    except UnicodeDecodeError:  # `=FF`: a writer of a kind may write any token as an id
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
    """Return the subject of one node's readings, one message per interval. node: `*` for a pattern."""
    return f"telemetry.{cluster}.{node if node == '*' else token(node)}"


def output_subject(cluster: str, job_id: str) -> str:
    """Return the subject of one job's output lines."""
    return f"logs.{cluster}.{job_id}"


def dead_subject(stream: str, seq: int) -> str:
    """Return the subject of one message's dead letter, of its own, so that a guard keeps it single."""
    return f"dead.{stream}.{seq}"


def dead_draft_subject(stream: str, key: str) -> str:
    """Return the subject of the dead letter of a fact that the log refuses. key: a hash of its subject."""
    return f"dead.{stream}.draft-{key}"


def query_subject(cluster: str, service: str, name: str) -> str:
    """Return the subject of a question to a service's core."""
    return f"query.{cluster}.{service}.{name}"


def view_subject(cluster: str, audience: str, what: str) -> str:
    """Return the subject of messages to dashboards. audience: a team, or `public`.

    what: `slice`, `packed` (the same, deflated), `telemetry`, or `output.<job>`.
    """
    return f"view.{cluster}.{audience}.{what}"
