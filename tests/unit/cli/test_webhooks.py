"""`muster webhook`: what it shows of the settings, and a message that really arrives."""

import asyncio
import json
from pathlib import Path

import pytest

from kit.loopback import served
from kit.stack.webhooks import SECRET, Receiver, answering, webhook
from muster.bus.settings import Settings
from muster.cli.errors import ExitCode
from muster.cli.main import run
from muster.notifier.signing import parse_secrets, signature


def a_stack(directory: Path, **webhooks: str) -> str:
    """A state directory with these webhooks, by name and address; nothing runs on it."""
    (directory / "key").write_text(SECRET)
    made = [webhook(name, url, secret=str(directory / "key"), teams=["physics"]) for name, url in webhooks.items()]
    values = Settings(state_dir=directory, credentials_dir=directory, webhooks=tuple(made))
    (directory / "settings.json").write_text(values.model_dump_json())
    return str(directory)


async def muster(*words: str) -> int:
    """The command in a thread: it has a loop of its own."""
    return await asyncio.to_thread(run, words)


def test_the_list_shows_hosts_and_no_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = a_stack(tmp_path, pager="https://chat.example/T1/secret-path")
    assert run(("webhook", "list", "--state-dir", stack, "-o", "json")) == ExitCode.OK
    said = capsys.readouterr()
    assert json.loads(said.out) == [
        {"name": "pager", "to": "https://chat.example", "format": "json", "events": ["job-ended"], "teams": ["physics"],
         "signed": True, "waiting": None},
    ]  # fmt: skip
    assert "secret-path" not in said.err
    assert "the number of undelivered events is unknown" in said.err


async def test_a_test_message_is_signed_and_what_came_back_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        assert await muster("webhook", "test", "pager", "--state-dir", a_stack(tmp_path, pager=f"{url}/x")) == 0
    request = receiver.received[0]
    assert request.message["type"] == "test"
    assert request.headers["webhook-signature"] == signature(
        parse_secrets(SECRET), message_id=request.id,
        timestamp_s=int(request.headers["webhook-timestamp"]), body=request.body,
    )  # fmt: skip
    assert f"pager: {url} answered 204" in capsys.readouterr().out


async def test_a_receiver_that_refuses_ends_with_3_and_one_that_is_away_with_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(Receiver(answering(403))) as url:
        stack = a_stack(tmp_path, pager=url)
        assert await muster("webhook", "test", "pager", "--state-dir", stack) == ExitCode.REFUSED
    assert "pager: the receiver answered 403" in capsys.readouterr().err
    assert await muster("webhook", "test", "pager", "--state-dir", stack) == ExitCode.UNREACHABLE


def test_a_webhook_that_is_not_set_or_whose_key_is_missing_is_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = a_stack(tmp_path, pager="http://127.0.0.1:1")
    assert run(("webhook", "test", "chat", "--state-dir", stack)) == ExitCode.USAGE
    assert "there is no webhook 'chat'" in capsys.readouterr().err
    (tmp_path / "key").unlink()
    assert run(("webhook", "test", "pager", "--state-dir", stack)) == ExitCode.USAGE
    assert "webhooks[pager].secret" in capsys.readouterr().err


def test_a_new_key_is_one_that_can_be_used_and_never_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert run(("webhook", "secret")) == ExitCode.OK
        printed.append(capsys.readouterr().out)
    assert len(parse_secrets(printed[0])[0]) == 32
    assert printed[0] != printed[1]
