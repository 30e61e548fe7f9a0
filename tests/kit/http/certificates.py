"""Certificates for tests: an authority, and what it signs for this machine."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    """Signs certificates for 127.0.0.1. folder: where the files are."""

    folder: Path
    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path) -> "Authority":
        key = generate_private_key(SECP256R1())
        certificate = _signed("muster-test-authority", key, issuer="muster-test-authority", by=key, is_authority=True)
        (folder / "ca.pem").write_bytes(certificate.public_bytes(PEM))
        return cls(folder, key, certificate)

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str = "gateway") -> tuple[Path, Path]:
        """Write a new certificate of this name and its key, in the place of older ones."""
        key = generate_private_key(SECP256R1())
        certificate = _signed(name, key, issuer="muster-test-authority", by=self.key)
        files = self.folder / "tls.crt", self.folder / "tls.key"
        form = serialization.PrivateFormat.PKCS8
        files[1].write_bytes(key.private_bytes(PEM, form, serialization.NoEncryption()))
        files[0].write_bytes(certificate.public_bytes(PEM))
        return files


def _signed(
    name: str, key: EllipticCurvePrivateKey, *, issuer: str, by: EllipticCurvePrivateKey, is_authority: bool = False
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([here]), critical=False)
    return builder.sign(by, hashes.SHA256())
