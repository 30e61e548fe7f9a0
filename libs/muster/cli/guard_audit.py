"""The two files by which API servers tell the guard who lists."""

import json
from pathlib import Path

import typer

POLICY, WEBHOOK = "audit-policy.json", "audit-webhook.json"
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


def webhook(url: str) -> dict[str, object]:
    """A kubeconfig whose server is the guard."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guard", "cluster": {"server": url}}],
        "contexts": [{"name": "guard", "context": {"cluster": "guard", "user": ""}}],
        "current-context": "guard",
        "users": [],
    }


def files(into: Path, *, url: str) -> tuple[str, ...]:
    """Write both, and answer the flags that name them. Raises OSError."""
    into.mkdir(parents=True, exist_ok=True)
    places = {"policy": into / POLICY, "webhook": into / WEBHOOK}
    places["policy"].write_text(json.dumps(policy(), indent=2) + "\n")
    places["webhook"].write_text(json.dumps(webhook(url), indent=2) + "\n")
    return tuple(flag.format(**places) for flag in FLAGS)


def write(into: Path, *, url: str) -> None:
    """As a command: the flags to start API servers with are printed."""
    for flag in files(into, url=url):
        typer.echo(flag)
