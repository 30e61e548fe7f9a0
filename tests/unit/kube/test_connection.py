"""A connection says who asks, tries again what can be tried again, and tells apart what went wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from kit.kube.fake import FakeKube, fake_kube
from muster.kube import bounds
from muster.kube.connection import KubeConnection, user_agent_of
from muster.kube.credentials import NoCredentials
from muster.kube.errors import (
    AlreadyExistsError,
    Asked,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeConfigError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    backoff_s,
    error_of,
    wait_s,
)
from muster.kube.official import from_kubeconfig, in_cluster
from muster.kube.resources import CONFIG_MAPS, NODES, PODS, RESOURCE_CLAIMS

AGENT = user_agent_of("test", "1.2")
EMPTY = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}
ASKED = Asked("create", "pods/binding", namespace="n", name="p")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.kube.transport.wait_s", lambda *a, **k: None if wait_s(*a, **k) is None else 0.0)


@pytest.fixture
async def fake() -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        yield kube


@pytest.fixture
async def kube(fake: FakeKube) -> AsyncIterator[KubeConnection]:
    async with KubeConnection.plain(fake.url, user_agent=AGENT) as connection:
        yield connection


@asynccontextmanager
async def answering(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """A server that gives every request this answer."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(path: Path, url: str, **user: object) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u"}},
                    {"name": "nowhere", "context": {"cluster": "missing", "user": "u"}},
                ],
            }
        )
    )
    return path


def plugin(tmp_path: Path, body: str) -> dict[str, object]:
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o700)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (410, "Expired", GoneError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (422, "Invalid", InvalidError),
        (400, "BadRequest", InvalidError),
        (302, "", InvalidError),
        (429, "TooManyRequests", TooManyRequestsError),
        (500, "InternalError", UnavailableError),
        (504, "Timeout", UnavailableError),
    ],
)
def test_every_code_has_its_error(code: int, reason: str, kind: type[KubeError]) -> None:
    body = f'{{"kind":"Status","reason":"{reason}","message":"because"}}'.encode()
    error = error_of(ASKED, code, body)
    assert type(error) is kind
    assert (error.code, error.reason, error.asked) == (code, reason, ASKED)
    assert "create pods/binding p in namespace n" in str(error)
    assert "because" in str(error)


def test_an_answer_of_a_proxy_is_told_as_it_is() -> None:
    assert "<html>bad gateway" in str(error_of(ASKED, 502, b"<html>bad gateway"))


def test_a_change_may_have_been_made_unless_it_was_turned_away() -> None:
    reading = Asked("get", "pods")
    expected = {(ASKED, 500, ""): True, (ASKED, 503, ""): True, (ASKED, 503, "1"): False, (reading, 500, ""): False}
    for (asked, code, after), unknown in expected.items():
        error = error_of(asked, code, b"", retry_after=after)
        assert isinstance(error, UnavailableError)
        assert error.effect_unknown is unknown


def test_only_what_cannot_have_been_done_is_repeated() -> None:
    busy = error_of(ASKED, 429, b"", retry_after="7")
    assert 7.0 < (wait_s(busy, 1, seed=1) or 0.0) <= 7.0 + bounds.BACKOFF_S_MIN
    assert wait_s(busy, bounds.ATTEMPTS_MAX, seed=1) is None
    assert wait_s(error_of(ASKED, 500, b""), 1, seed=1) is None
    assert wait_s(error_of(Asked("get", "pods"), 500, b""), 1, seed=1) is not None
    assert wait_s(error_of(ASKED, 409, b""), 1, seed=1) is None
    budget = b'{"details":{"causes":[{"reason":"DisruptionBudget"}]}}'
    assert wait_s(error_of(ASKED, 429, budget), 1, seed=1) is None


def test_waits_grow_are_bounded_and_differ_by_seed() -> None:
    waits = [[backoff_s(attempt, seed=seed) for attempt in range(1, 9)] for seed in range(50)]
    for of_one in waits:
        assert all(0 < wait <= bounds.BACKOFF_S_MAX for wait in of_one)
        assert of_one[0] <= bounds.BACKOFF_S_MIN < of_one[-1]
    assert len({of_one[0] for of_one in waits}) == 50


def test_paths_are_those_of_the_api() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path(namespace="n", name="p", subresource="binding") == "/api/v1/namespaces/n/pods/p/binding"
    assert NODES.path(name="n1") == "/api/v1/nodes/n1"
    assert RESOURCE_CLAIMS.path(namespace="n") == "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims"
    for wrong in ({"namespace": "n", "name": "../secrets"}, {"name": "p"}, {"namespace": "n", "subresource": "status"}):
        with pytest.raises(ValueError, match=r"pods|part of a path"):
            PODS.path(**wrong)
    with pytest.raises(ValueError, match="cluster-scoped"):
        NODES.path(namespace="n")


async def test_reads_are_repeated_and_then_given_up(fake: FakeKube, kube: KubeConnection) -> None:
    fake.faults.fail(500, verbs="list", times=bounds.ATTEMPTS_MAX - 1)
    assert (await kube.list_page(PODS)).items == []
    fake.faults.fail(500, verbs="list", times=bounds.ATTEMPTS_MAX)
    with pytest.raises(UnavailableError, match="told to fail"):
        await kube.list_page(PODS)
    assert fake.count("list") == 2 * bounds.ATTEMPTS_MAX == kube.requests_sent


async def test_a_change_that_flow_control_refused_is_repeated(fake: FakeKube, kube: KubeConnection) -> None:
    fake.faults.fail(429, verbs="create", retry_after_s=1)
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="default")
    assert [one.code for one in fake.asked("create")] == [429, 201]


async def test_a_change_without_an_answer_is_not_repeated(fake: FakeKube, kube: KubeConnection) -> None:
    fake.faults.fail(500, verbs="create", hang_up=True, after_work=True)
    with pytest.raises(UnavailableError, match="check before repeating it") as failed:
        await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="default")
    assert failed.value.effect_unknown
    assert fake.store.find(CONFIG_MAPS, "a", "default") is not None


async def test_the_service_names_itself(fake: FakeKube, kube: KubeConnection) -> None:
    await kube.list_page(PODS)
    assert fake.count(user_agent="muster-test/1.2") == 1


async def test_connections_are_renewed_by_age_and_watches_keep_theirs(fake: FakeKube) -> None:
    ports: list[int] = []
    fake.faults.hook = lambda *_: None

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b'{"type":"first"}\n')
            await asyncio.sleep(0.2)
            await response.write(b'{"type":"second"}\n')
            return response
        return web.json_response(EMPTY)

    async with answering(answer) as url:
        connection = KubeConnection(NoCredentials(url), user_agent=AGENT, connection_age_s_max=0.05)
        async with connection, connection.watch(PODS, timeout_s=5, silence_s=5.0) as lines:
            batches = lines.batches()
            assert await anext(batches) == [b'{"type":"first"}']
            for _ in range(2):
                await connection.list_page(PODS)
                await connection.list_page(PODS)
                await asyncio.sleep(0.06)
            assert await anext(batches) == [b'{"type":"second"}']
    assert ports[1] == ports[2] != ports[3] == ports[4]


async def test_a_redirect_is_not_followed() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"})

    async with answering(answer) as url, KubeConnection.plain(url, user_agent=AGENT) as kube:
        with pytest.raises(InvalidError, match="302"):
            await kube.get(NODES, "n1")


async def test_nonsense_is_no_object() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text="[1" if "nodes" in request.path else "[1]")

    async with answering(answer) as url, KubeConnection.plain(url, user_agent=AGENT) as kube:
        for resource in (NODES, PODS):
            with pytest.raises(UnavailableError, match=r"not JSON|not a JSON object"):
                await kube.list_page(resource)


async def test_an_answer_without_a_version_is_no_empty_list() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    async with answering(answer) as url, KubeConnection.plain(url, user_agent=AGENT) as kube:
        with pytest.raises(UnavailableError, match="the answer is not a list"):
            await kube.list_page(PODS)


async def test_a_line_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.kube.transport.LINE_BYTES_MAX", 10)

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n" + "x" * 100)

    async with (
        answering(answer) as url,
        KubeConnection.plain(url, user_agent=AGENT) as kube,
        kube.lines("/metrics") as lines,
    ):
        with pytest.raises(UnavailableError, match="longer than 10 bytes"):
            await anext(lines.batches())


class Bearers:
    """A server that takes one token at a time and notes all it was shown."""

    def __init__(self, accepted: str) -> None:
        self.accepted = accepted
        self.shown: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.shown.append(request.headers.get("Authorization", ""))
        if self.shown[-1] != f"Bearer {self.accepted}":
            return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=401)
        return web.json_response(EMPTY)


async def test_a_token_that_was_renewed_in_its_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server = Bearers("old")
    async with answering(server.answer) as url:
        path = kubeconfig(tmp_path / "config", url, tokenFile=str(token))
        async with await KubeConnection.open(kubeconfig=path, user_agent=AGENT) as kube:
            await kube.list_page(PODS)
            server.accepted = "new"
            with pytest.raises(UnauthorizedError, match="check the token"):
                await kube.list_page(PODS)
            token.write_text("new")
            await kube.list_page(PODS)
    assert server.shown == [f"Bearer {each}" for each in ("old", "old", "old", "old", "new")]


async def test_a_watch_that_is_refused_makes_the_token_be_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server = Bearers("new")
    async with answering(server.answer) as url:
        path = kubeconfig(tmp_path / "config", url, tokenFile=str(token))
        async with await KubeConnection.open(kubeconfig=path, user_agent=AGENT) as kube:
            token.write_text("new")
            with pytest.raises(UnauthorizedError):
                await kube.watch(PODS, timeout_s=5, silence_s=5.0).__aenter__()
            async with kube.watch(PODS, timeout_s=5, silence_s=5.0) as lines:
                assert [json.loads(line) for line in await anext(lines.batches())] == [EMPTY]
    assert server.shown == ["Bearer old", "Bearer new"]


async def test_an_exec_plugin_logs_in(tmp_path: Path) -> None:
    said = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t1"}}'
    server = Bearers("t1")
    async with answering(server.answer) as url:
        path = kubeconfig(tmp_path / "config", url, exec=plugin(tmp_path, f"echo '{said}'"))
        async with await KubeConnection.open(kubeconfig=path, user_agent=AGENT) as kube:
            await kube.list_page(PODS)
    assert server.shown == ["Bearer t1"]


async def test_a_plugin_that_fails_is_an_error_and_not_nobody(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", exec=plugin(tmp_path, "exit 3"))
    with pytest.raises(KubeConfigError, match="run its command by hand"):
        await from_kubeconfig(path)


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        (None, "", "file not found"),
        (":::", "", "kubeconfig"),
        ("", "", "kubeconfig"),
        ("[1, 2]", "", "kubeconfig"),
        (..., "other", "other"),
        (..., "nowhere", "missing"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, text: str | None, context: str, said: str
) -> None:
    path = tmp_path / "config"
    if text is ...:
        kubeconfig(path, "https://127.0.0.1:1", token="t")
    elif text is not None:
        path.write_text(text)
    with pytest.raises(KubeConfigError, match=said):
        await from_kubeconfig(path, context=context)


async def test_outside_of_a_cluster_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeConfigError, match="Run inside a pod"):
        await in_cluster()


async def test_in_a_cluster_the_token_file_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", "first"), ("ca.crt", "no certificate")):
        (tmp_path / name).write_text(content)
    loader = "kubernetes.aio.config.incluster_config"
    monkeypatch.setattr(f"{loader}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{loader}.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    credentials = await in_cluster()
    assert credentials.url == "https://[fd00::1]:443"
    assert await credentials.authorization() == "bearer first"
    (tmp_path / "token").write_text("second")
    assert await credentials.authorization() == "bearer first"
    credentials.reject()
    assert await credentials.authorization() == "bearer second"
    with pytest.raises(KubeConfigError, match="its certificates cannot be read"):
        await credentials.tls()
