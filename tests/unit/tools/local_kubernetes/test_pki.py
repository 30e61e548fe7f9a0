"""Keys and certificates of a control plane."""

import ipaddress
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from muster_tools.local_kubernetes.pki import make_pki

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_api_servers_certificate_is_signed_by_the_authority(tmp_path: Path) -> None:
    pki = make_pki(tmp_path, now=NOW)

    certificate(pki.server_certificate).verify_directly_issued_by(certificate(pki.ca))


def test_it_is_valid_on_loopback_now(tmp_path: Path) -> None:
    found = certificate(make_pki(tmp_path, now=NOW).server_certificate)

    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert found.not_valid_before_utc < NOW < found.not_valid_after_utc


def test_certificate_and_key_belong_together(tmp_path: Path) -> None:
    pki = make_pki(tmp_path, now=NOW)

    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(pki.server_certificate, pki.server_key)


def test_keys_are_for_this_user_only_and_in_the_form_that_the_api_server_reads(tmp_path: Path) -> None:
    pki = make_pki(tmp_path, now=NOW)

    for path in (pki.server_key, pki.service_account_key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")


def test_every_plane_has_an_authority_of_its_own(tmp_path: Path) -> None:
    first, second = make_pki(tmp_path / "a", now=NOW), make_pki(tmp_path / "b", now=NOW)

    keys = [certificate(pki.ca).public_key() for pki in (first, second)]
    assert all(isinstance(key, ec.EllipticCurvePublicKey) for key in keys)
    assert keys[0] != keys[1]
