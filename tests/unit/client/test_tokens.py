"""Where the token of a request comes from."""

import sys
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kit.http.gateway import FakeHarness
from kit.loopback import served
from muster.client import CommandToken, FileToken, Muster, RefusedError, TokenError
from muster.client.tokens import TOKEN_CHARS_MAX
from muster.schemas.access import token_hash


def printing(code: str) -> CommandToken:
    return CommandToken([sys.executable, "-c", code], timeout_s=20)


async def test_a_file_is_read_for_every_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ann\n")
    async with served(FakeHarness().app) as url, Muster(url, FileToken(file)) as muster:
        assert (await muster.me()).principal == "ann"
        file.write_text("olga\n")
        assert (await muster.me()).principal == "olga"


async def test_a_command_runs_once_and_again_when_its_token_is_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = (
        f"from pathlib import Path; p = Path({str(runs)!r}); "
        "n = int(p.read_text()) + 1 if p.exists() else 1; p.write_text(str(n)); print(f'token-{n}')"
    )
    harness = FakeHarness()
    records = harness.tokens._records
    harness.tokens.set(token_hash("token-1"), records[token_hash("ann")])
    harness.tokens.set(token_hash("token-2"), records[token_hash("olga")])
    async with served(harness.app) as url, Muster(url, printing(code)) as muster:
        assert [(await muster.me()).principal for _ in range(2)] == ["ann", "ann"]
        assert runs.read_text() == "1"
        harness.tokens.drop(token_hash("token-1"))
        assert (await muster.me()).principal == "olga"
        harness.tokens.drop(token_hash("token-2"))
        with pytest.raises(RefusedError):
            await muster.me()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("pass", "gives no token"),
        ("print('two words')", "gives no token"),
        ("print('a\\r\\nX-Injected: b')", "gives no token"),
        ("raise SystemExit(3)", "status 3"),
        (f"print('a' * {8 * TOKEN_CHARS_MAX})", "more than"),
    ],
)
async def test_a_command_that_gives_no_token_says_so(code: str, told: str) -> None:
    with pytest.raises(TokenError, match=told):
        await printing(code).token()


async def test_a_command_that_does_not_end_is_ended() -> None:
    waits = CommandToken([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=0.1)
    with pytest.raises(TokenError, match="did not end"):
        await waits.token()


async def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(TokenError, match="/not/there"):
        await CommandToken(["/not/there"]).token()


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="nowhere"):
        await FileToken(tmp_path / "nowhere").token()


async def test_a_token_is_not_sent_on_to_where_an_answer_points() -> None:
    seen: list[str] = []

    async def elsewhere(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(Request(scope).headers.get("authorization", ""))
        await Response("{}")(scope, receive, send)

    async with served(elsewhere) as other:

        async def pointing(scope: Scope, receive: Receive, send: Send) -> None:
            await Response(status_code=307, headers={"Location": f"{other}/v1/me"})(scope, receive, send)

        async with served(pointing) as url, Muster(url, "secret") as muster:
            with pytest.raises(Exception, match="307"):
                await muster.me()
    assert seen == []
