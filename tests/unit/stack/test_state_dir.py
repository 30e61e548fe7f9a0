"""The state directory: whose it is, who uses it, what is removed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.stack.state_dir import (
    Holder,
    NotAStateDirError,
    StateDir,
    StateDirError,
    StateDirLock,
    StateDirLockedError,
    default_state_dir,
    holder_of,
)

ME = Holder(pid=4711, since_s=1_700_000_000, command="muster up")


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    state = StateDir(tmp_path / "state")
    state.prepare()
    return state


def test_the_second_start_is_told_who_holds_the_directory(state: StateDir) -> None:
    lock = StateDirLock.acquire(state, holder=ME)
    with pytest.raises(StateDirLockedError, match=r"4711.*muster up.*2023-11-14") as error:
        StateDirLock.acquire(state, holder=Holder(2, 2, "another"))
    assert error.value.holder == ME
    assert holder_of(state) == ME
    lock.release()


def test_a_released_directory_can_be_used_again(state: StateDir) -> None:
    StateDirLock.acquire(state, holder=ME).release()
    assert holder_of(state) is None
    again = Holder(2, 2, "x")
    lock = StateDirLock.acquire(state, holder=again)
    assert holder_of(state) == again
    lock.release()


def test_a_killed_holder_holds_nothing(state: StateDir) -> None:
    code = (
        "import sys; from pathlib import Path; from muster.stack.state_dir import *\n"
        "lock = StateDirLock.acquire(StateDir(Path(sys.argv[1])), holder=Holder(1, 1, 'killed'))\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        (sys.executable, "-c", code, str(state.path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert holder_of(state) == Holder(1, 1, "killed")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    assert holder_of(state) is None
    StateDirLock.acquire(state, holder=ME).release()


def test_only_this_user_may_read_it(state: StateDir) -> None:
    assert state.path.stat().st_mode & 0o777 == 0o700
    assert state.creds.stat().st_mode & 0o777 == 0o700


def test_a_foreign_directory_is_neither_used_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(NotAStateDirError, match="--state-dir"):
        StateDir(tmp_path).prepare()
    with pytest.raises(NotAStateDirError, match="nothing was removed"):
        StateDir(tmp_path).wipe()
    assert (tmp_path / "thesis.tex").exists()


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateDirError, match=r"file/state cannot be used \(Not a directory\)"):
        StateDir(tmp_path / "file" / "state").prepare()


def test_starting_over_keeps_the_held_lock_and_the_marker_alone(state: StateDir) -> None:
    lock = StateDirLock.acquire(state, holder=ME)
    state.token.write_text("secret")
    (state.nats / "store").mkdir()
    (state.run / "nats-server.pid").write_text("1")
    outside = state.path.parent / "outside"
    outside.mkdir()
    (state.path / "link").symlink_to(outside)
    state.wipe()
    assert {entry.name for entry in state.path.iterdir()} == {".muster-state", "run"}
    assert list(state.run.iterdir()) == [state.lock]
    assert outside.exists()
    assert holder_of(state) == ME
    lock.release()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_STATE_HOME": "/var/xdg"}, "/var/xdg/muster"),
        ({"XDG_STATE_HOME": "relative"}, "/home/me/.local/state/muster"),
        ({}, "/home/me/.local/state/muster"),
    ],
)
def test_the_default_is_the_users_state_directory(environment: dict[str, str], expected: str) -> None:
    assert default_state_dir(environment, home=Path("/home/me")) == Path(expected)
