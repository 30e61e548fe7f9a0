"""Whose certificate a manager may show: one that the system trusts, or that the credentials file names."""

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.fabrics import LOGIN
from muster.bus.settings import FabricSettings
from muster.fabric.driver import FabricRefusedError, FabricUnavailableError
from muster.fabric.open import open_driver
from muster.fabric.token import CredentialsError

FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def self_signed(directory: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a manager of these tests")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "manager.pem", directory / "manager.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, private, encryption_algorithm=serialization.NoEncryption())
    )
    return paths


@asynccontextmanager
async def manager_that_forbids(directory: Path) -> AsyncIterator[tuple[str, Path]]:
    """Its address and its certificate. It answers 403 to whatever is asked."""
    certificate, key = self_signed(directory)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(FORBIDDEN)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", certificate
    finally:
        server.close()
        await server.wait_closed()


def settings(url: str, directory: Path, **login: str) -> FabricSettings:
    path = directory / "login.json"
    path.write_text(json.dumps({**LOGIN, **login}))
    return FabricSettings(name="east", url=url, credentials=path, call_s=10)


async def test_a_certificate_that_the_credentials_name_is_trusted(tmp_path: Path) -> None:
    async with manager_that_forbids(tmp_path) as (url, certificate):
        driver = open_driver(settings(url, tmp_path, certificate=certificate.read_text()))
        with pytest.raises(FabricRefusedError, match="403"):
            await driver.survey()
        await driver.close()


async def test_a_certificate_of_nobody_knows_whom_gets_no_password(tmp_path: Path) -> None:
    async with manager_that_forbids(tmp_path) as (url, _):
        driver = open_driver(settings(url, tmp_path))
        with pytest.raises(FabricUnavailableError, match="certificate verify failed"):
            await driver.survey()
        await driver.close()


def test_what_is_no_certificate_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="certificate"):
        open_driver(settings("https://127.0.0.1:1", tmp_path, certificate="-----BEGIN nothing"))
