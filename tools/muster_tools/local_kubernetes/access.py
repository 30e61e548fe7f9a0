"""Access to the API server: the token file that it reads, and kubeconfigs for each user."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from muster_tools.local_kubernetes.options import User


def token_rows(users: Iterable[User], token_of: Callable[[str], str]) -> str:
    """Return the API server's token file: token, user, uid and, in quotes, the groups."""
    rows = (f'{token_of(user.name)},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users)
    return "".join(rows)


def kubeconfig(*, server: str, ca_pem: bytes, user: str, token: str) -> Mapping[str, object]:
    """One cluster, one user, one context; JSON is YAML, so every client reads it."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "muster-local",
                "cluster": {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()},
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "muster-local", "context": {"cluster": "muster-local", "user": user}}],
        "current-context": "muster-local",
    }


def write_private(path: Path, text: str) -> Path:
    """Write a file that only this user may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def write_kubeconfig(path: Path, *, server: str, ca: Path, user: str, token: str) -> Path:
    """Write a kubeconfig that only this user may read."""
    return write_private(path, json.dumps(kubeconfig(server=server, ca_pem=ca.read_bytes(), user=user, token=token)))
