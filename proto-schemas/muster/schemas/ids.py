"""Ids are hashes of what they name: a retry gives the same id, and no id is random."""

import base64
import hashlib

from muster.schemas.job import JobSpec

_SEPARATOR = "\x1f"  # cannot stand in any of the parts' patterns, so that parts never run together


def _digest(*parts: str | int) -> bytes:
    return hashlib.sha256(_SEPARATOR.join(map(str, parts)).encode()).digest()


def job_id(*, team: str, principal: str, idempotency_key: str) -> str:
    """Return a job's id: 26 characters of base 32 (130 bits)."""
    return base64.b32encode(_digest("job", team, principal, idempotency_key)[:20])[:26].decode()


def fact_id(*, scope: str, service: str, term: int, folded_seq: int, index: int) -> str:
    """Return a fact's id: 22 characters of URL-safe base 64 (132 bits), the same when a decision is retried."""
    return base64.urlsafe_b64encode(_digest("fact", scope, service, term, folded_seq, index))[:22].decode()


def request_fact_id(*parts: str) -> str:
    """Return the id of a fact that a request causes: the same request gives the same fact."""
    return base64.urlsafe_b64encode(_digest("request", *parts))[:22].decode()


def request_name(principal: str, idempotency_key: str) -> str:
    """Return a name for a ComposabilityRequest without one: the same key gives the same request."""
    return f"request-{_digest('name', principal, idempotency_key)[:6].hex()}"


def origin_principal(namespace: str) -> str:
    """Return the principal of a Kubernetes object, by its namespace: the user who created it is unknown."""
    return f"kubernetes:{namespace}"


def origin_key(cluster: str, uid: str) -> str:
    """Return the idempotency key of the job of a Kubernetes object: the same object gives the same job. The cluster
    is part of the key, so no cluster can produce an id of another cluster's job, whichever uid it invents."""
    return f"kubernetes/{cluster}/{uid}"  # a cluster's name has no slash


def origin_job_id(*, team: str, cluster: str, namespace: str, uid: str) -> str:
    """Return the id of the object's job, if its namespace acts for this team."""
    return job_id(team=team, principal=origin_principal(namespace), idempotency_key=origin_key(cluster, uid))


def body_hash(spec: JobSpec) -> str:
    """Return SHA-256 of the canonical spec, in hex. Without defaults: a new field leaves old hashes unchanged."""
    return hashlib.sha256(spec.model_dump_json(exclude_defaults=True).encode()).hexdigest()


def trace_id(job: str) -> str:
    """Return the W3C trace id of a job whose submitter sent none: 32 hex digits."""
    return _digest("trace", job)[:16].hex()


def span_id(fact: str) -> str:
    """Return the W3C span id of a fact: 16 hex digits."""
    return _digest("span", fact)[:8].hex()


def traceparent(trace: str, span: str) -> str:
    """Return the W3C trace context header, sampled."""
    return f"00-{trace}-{span}-01"
