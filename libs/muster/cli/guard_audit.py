"""The files by which API servers tell the guard who lists."""

import json
import os
from pathlib import Path

import typer

from muster.cli import output

POLICY, WEBHOOK, TOKEN = "audit-policy.json", "audit-webhook.json", "audit-token"
TOKEN_BYTES = 32
FLAGS = (
    "--audit-policy-file={policy}",
    "--audit-webhook-config-file={webhook}",
    "--audit-webhook-batch-max-wait=5s",
)


def policy() -> dict[str, object]:
    """LISTs at level Metadata, when they are answered, and nothing else: no bodies, no names of what others read."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
        "rules": [{"level": "Metadata", "verbs": ["list"]}, {"level": "None"}],
    }


def webhook(url: str, token: str) -> dict[str, object]:
    """A kubeconfig whose server is the guard, with the token that it asks for in the path: over plain HTTP API servers
    send no credentials of a user.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guard", "cluster": {"server": f"{url.rstrip('/')}/audit/{token}"}}],
        "contexts": [{"name": "guard", "context": {"cluster": "guard", "user": "api-server"}}],
        "current-context": "guard",
        "users": [{"name": "api-server", "user": {}}],
    }


def files(into: Path, *, url: str, token: str) -> tuple[str, ...]:
    """Write all, for this user alone, and answer the flags of API servers that name them. Raises OSError."""
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    places = {"policy": into / POLICY, "webhook": into / WEBHOOK}
    _private(places["policy"], json.dumps(policy(), indent=2))
    _private(places["webhook"], json.dumps(webhook(url, token), indent=2))
    _private(into / TOKEN, token)
    return tuple(flag.format(**places) for flag in FLAGS)


def write(into: Path, *, url: str) -> None:
    """As a command: the flags to start API servers with are printed. A token that is there stays."""
    known = into / TOKEN
    token = known.read_text().strip() if known.is_file() else os.urandom(TOKEN_BYTES).hex()
    for flag in files(into, url=url, token=token):
        typer.echo(flag)
    output.talk().print(f"The guard takes what is sent with this token: setting guard.audit_token = {known}")


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(f"{text}\n")
