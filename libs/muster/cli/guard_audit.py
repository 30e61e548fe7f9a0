"""Write the audit configuration by which API servers report LISTs to the guard."""

import base64
import ipaddress
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.bus.clock import SystemTime
from muster.cli.output import print_line, print_note
from muster.core import NS_PER_S

VALID_FOR = timedelta(days=365)
BACKDATED = timedelta(hours=1)
"""Clocks of hosts may be behind."""
COMMON_NAME_MAX = 64  # RFC 5280, appendix A.1

POLICY, WEBHOOK, TOKEN = "audit-policy.json", "audit-webhook.json", "audit-token"
CERTIFICATE, KEY = "audit.crt", "audit.key"
TOKEN_BYTES = 32
FLAGS = (
    "--audit-policy-file={policy}",
    "--audit-webhook-config-file={webhook}",
    "--audit-webhook-batch-max-wait=5s",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


def self_signed(host: str, *, now: datetime) -> Pair:
    """Create a self-signed certificate for a host name or address. now: with a time zone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:COMMON_NAME_MAX])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectAlternativeName([_named(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def policy() -> dict[str, object]:
    """Return the audit policy: completed LISTs at level Metadata, no other requests and no bodies."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
        "rules": [{"level": "Metadata", "verbs": ["list"]}, {"level": "None"}],
    }


def webhook(url: str, token: str, *, ca: bytes = b"") -> dict[str, object]:
    """Return a kubeconfig whose server is the guard, with the token in the path: over plain HTTP API servers
    send no credentials of a user. ca: of the guard's certificate, in PEM; empty: the CAs of the host.
    """
    cluster = {"server": f"{url.rstrip('/')}/audit/{token}"}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guard", "cluster": cluster}],
        "contexts": [{"name": "guard", "context": {"cluster": "guard", "user": "api-server"}}],
        "current-context": "guard",
        "users": [{"name": "api-server", "user": {}}],
    }


def files(into: Path, *, url: str, token: str, ca: bytes = b"") -> tuple[str, ...]:
    """Write all files, readable by this user only; return the flags for API servers. Raises OSError."""
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    places = {"policy": into / POLICY, "webhook": into / WEBHOOK}
    _private(places["policy"], json.dumps(policy(), indent=2))
    _private(places["webhook"], json.dumps(webhook(url, token, ca=ca), indent=2))
    _private(into / TOKEN, token)
    return tuple(flag.format(**places) for flag in FLAGS)


def write(into: Path, *, url: str, ca: Path | None) -> None:
    """Write the files and print the flags for API servers. An existing token and certificate are kept.

    ca: file with the CA of the guard's certificate; None: an https URL gets a self-signed certificate.
    """
    known = into / TOKEN
    token = known.read_text().strip() if known.is_file() else os.urandom(TOKEN_BYTES).hex()
    settings = {"audit_token": known}
    trusted = ca.read_bytes() if ca is not None else b""
    if ca is None and urlsplit(url).scheme == "https":
        trusted = _certificate(into, urlsplit(url).hostname or "")
        settings |= {"audit_certificate": into / CERTIFICATE, "audit_key": into / KEY}
    for flag in files(into, url=url, token=token, ca=trusted):
        print_line(flag)
    said = ", ".join(f"guard.{name} = {path}" for name, path in settings.items())
    print_note(f"Add the token to the settings of the guard: {said}")


def _certificate(into: Path, host: str) -> bytes:
    """Return the certificate of the guard; create it if there is none."""
    certificate, key = into / CERTIFICATE, into / KEY
    if not (certificate.is_file() and key.is_file()):
        made = self_signed(host, now=datetime.fromtimestamp(SystemTime().wall() / NS_PER_S, UTC))
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        _private(certificate, made.certificate.decode())
        _private(key, made.key.decode())
    return certificate.read_bytes()


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(f"{text}\n")
