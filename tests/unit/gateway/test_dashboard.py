"""The dashboard's files at the gateway: what browsers get, what the API's clients do, what may be loaded."""

import os
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.dashboard import Site, headers
from muster.gateway.http import make_app

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SCRIPT = "assets/index-0a1b2c.js"
INDEX = "<!doctype html><title>Muster</title>"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / SCRIPT).write_text("let x = 1;" * 100)
    (tmp_path / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "index.html").write_text(INDEX)
    return tmp_path


def client_of(directory: Path) -> httpx.AsyncClient:
    harness = replace(FakeHarness().harness, site=Site(directory, headers("ws://127.0.0.1:4223/path")))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=make_app(harness)), base_url="http://muster")


@pytest.mark.parametrize("path", ["/", "/fleet", "/jobs/AAAAAAAAAAAAAAAAAAAAAAAAAA", "/saved/some.view"])
async def test_a_browser_gets_the_page_under_every_path_of_its_own(built: Path, path: str) -> None:
    async with client_of(built) as client:
        answer = await client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.text) == (200, INDEX)
    assert answer.headers["cache-control"] == "no-cache"


async def test_what_a_page_loads_is_kept_for_ever_and_comes_compressed(built: Path) -> None:
    async with client_of(built) as client:
        answer = await client.get(f"/{SCRIPT}")
        plain = await client.get(f"/{SCRIPT}", headers={"Accept-Encoding": "identity"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text == plain.text == "let x = 1;" * 100
    assert "content-encoding" not in plain.headers
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_a_file_that_did_not_change_is_not_sent_again(built: Path) -> None:
    async with client_of(built) as client:
        first = await client.get("/icon.svg")
        again = await client.get("/icon.svg", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_page_may_load_only_from_here_and_speak_only_to_the_broker(built: Path) -> None:
    async with client_of(built) as client:
        answer = await client.get("/", headers=BROWSER)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["img-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://127.0.0.1:4223"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/assets/gone-0a1b2c.js", "/favicon.ico", "/../pyproject.toml", "/assets/../../x"])
async def test_what_is_not_there_is_not_there(built: Path, path: str) -> None:
    async with client_of(built) as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["field"]) == (404, "path")


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1", "/docs/nothing"])
async def test_the_apis_paths_are_never_pages(built: Path, path: str) -> None:
    async with client_of(built) as client:
        answer = await client.get(path, headers=BROWSER | {"Authorization": "Bearer ann"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_a_page_is_only_looked_at(built: Path) -> None:
    async with client_of(built) as client:
        assert (await client.head("/fleet", headers=BROWSER)).status_code == 200
        assert (await client.post("/fleet", headers=BROWSER)).status_code == 404


async def test_without_a_build_the_page_says_how_to_make_one_and_finds_it_then(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        before = await client.get("/", headers=BROWSER)
        (tmp_path / "index.html").write_text(INDEX)
        after = await client.get("/", headers=BROWSER)
    assert before.status_code == 503
    assert "make web" in before.text
    assert after.text == INDEX


async def test_a_new_build_is_served_at_once(built: Path) -> None:
    async with client_of(built) as client:
        assert (await client.get("/", headers=BROWSER)).text == INDEX
        (built / "index.html").write_text("new")
        os.utime(built / "index.html", ns=(1, 1))
        assert (await client.get("/", headers=BROWSER)).text == "new"
