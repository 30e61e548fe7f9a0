"""Ids are hashes of what they name: a retry makes the same id, and nobody draws random ones."""

import base64
import hashlib

from muster.schemas.job import JobSpec

_SEPARATOR = "\x1f"  # cannot stand in any of the parts' patterns, so that parts never run together


def _digest(*parts: str | int) -> bytes:
    return hashlib.sha256(_SEPARATOR.join(map(str, parts)).encode()).digest()


def job_id(*, team: str, principal: str, idempotency_key: str) -> str:
    """26 characters of base 32 (130 bits)."""
    return base64.b32encode(_digest("job", team, principal, idempotency_key))[:26].decode()


def fact_id(*, scope: str, service: str, term: int, folded_seq: int, index: int) -> str:
    """22 characters of URL-safe base 64 (132 bits): one decision's place in one term, the same when it is retried."""
    return base64.urlsafe_b64encode(_digest("fact", scope, service, term, folded_seq, index))[:22].decode()


def request_fact_id(*parts: str) -> str:
    """Id of a fact that a request causes: the same request again is the same fact."""
    return base64.urlsafe_b64encode(_digest("request", *parts))[:22].decode()


def request_name(principal: str, idempotency_key: str) -> str:
    """A name for a ComposabilityRequest that was given none: the same key is the same request."""
    return f"request-{_digest('name', principal, idempotency_key)[:6].hex()}"


def origin_principal(namespace: str) -> str:
    """On whose behalf an object of Kubernetes asks: nobody knows which person made it."""
    return f"kubernetes:{namespace}"


def origin_key(cluster: str, uid: str) -> str:
    """Idempotency key of the job that an object of Kubernetes stands for: the same object is the same job.

    The cluster is part of it, so that no cluster can make an id of another's job, whichever uid it makes up.
    """
    return f"kubernetes/{cluster}/{uid}"  # a cluster's name has no slash


def origin_job_id(*, team: str, cluster: str, namespace: str, uid: str) -> str:
    """The job that this very object stands for, if its namespace acts for this team."""
    return job_id(team=team, principal=origin_principal(namespace), idempotency_key=origin_key(cluster, uid))


def body_hash(spec: JobSpec) -> str:
    """SHA-256 of the canonical spec, in hex. Without defaults: a new field leaves old hashes as they are."""
    return hashlib.sha256(spec.model_dump_json(exclude_defaults=True).encode()).hexdigest()


def trace_id(job: str) -> str:
    """32 hex digits: W3C trace id of a job, when its submitter brought none."""
    return _digest("trace", job)[:16].hex()


def span_id(fact: str) -> str:
    """16 hex digits: W3C span id of a fact."""
    return _digest("span", fact)[:8].hex()


def traceparent(trace: str, span: str) -> str:
    """W3C trace context header, sampled."""
    return f"00-{trace}-{span}-01"
