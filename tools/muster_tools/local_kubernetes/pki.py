"""Keys and certificates of one control plane: an authority, the API server's own, and the service accounts' key."""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = timedelta(days=365)
BACKDATED = timedelta(hours=1)
"""Clocks of containers may be behind."""

SERVICE_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES = ("127.0.0.1", "10.0.0.1")
"""Loopback, and the first of the service addresses, which is the API server's own."""


@dataclass(frozen=True, slots=True)
class Pki:
    """Files in PEM. ca_key is not written: nothing signs after the start."""

    ca: Path
    server_certificate: Path
    server_key: Path
    service_account_key: Path


def make_pki(directory: Path, *, now: datetime) -> Pki:
    """Write the files, readable by this user only. now: with a time zone. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key, server_key, account_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster-local-ca")])
    ca = _authority(ca_name, ca_key, now)
    server = _serving(ca_name, ca_key, server_key.public_key(), now)
    made = Pki(
        directory / "ca.crt",
        directory / "apiserver.crt",
        directory / "apiserver.key",
        directory / "service-account.key",
    )
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    made.server_certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    for path, key in ((made.server_key, server_key), (made.service_account_key, account_key)):
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,  # the API server reads no public key out of PKCS8
                serialization.NoEncryption(),
            )
        )
    return made


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALID_FOR)
    )


def _authority(name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return (
        _begun(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _serving(
    issuer: x509.Name, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.Certificate:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVICE_NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    return (
        _begun(subject, issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
