"""What an API server writes down of the requests of some users: which verbs they used, and what they were refused."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from muster.kube.objects import JsonObject, integer, text

REFUSED = 403


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. client: its user agent. resource: with its subresource; "" for a path that is no resource. code: of
    the answer.
    """

    user: str
    client: str
    verb: str
    group: str
    resource: str
    namespace: str
    path: str
    code: int


def audit_flags(directory: Path, users: Iterable[str]) -> tuple[str, ...]:
    """Flags of an API server that writes every request of these users into `directory`."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": list(users)}, {"level": "None"}],
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "policy.json").write_text(json.dumps(policy))
    return (
        f"--audit-policy-file={directory / 'policy.json'}",
        f"--audit-log-path={_log(directory)}",
        "--audit-log-mode=blocking",
    )


def asked(directory: Path) -> list[Asked]:
    """Everything that was written so far."""
    lines = _log(directory).read_text().splitlines() if _log(directory).exists() else []
    return [_asked(json.loads(line)) for line in lines]


def _log(directory: Path) -> Path:
    return directory / "audit.log"


def _asked(event: JsonObject) -> Asked:
    resource, subresource = text(event, "objectRef", "resource"), text(event, "objectRef", "subresource")
    return Asked(
        user=text(event, "user", "username"),
        client=text(event, "userAgent"),
        verb=text(event, "verb"),
        group=text(event, "objectRef", "apiGroup"),
        resource=f"{resource}/{subresource}" if subresource else resource,
        namespace=text(event, "objectRef", "namespace"),
        path=text(event, "requestURI").partition("?")[0],
        code=integer(event, "responseStatus", "code"),
    )
