"""Wrong input ends in one line that names the option, for every option of every command; nothing hangs."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from subprocess import PIPE, CompletedProcess
from subprocess import run as run_process
from threading import Thread

import pytest
import typer

from muster.cli import files, values
from muster.cli.errors import CliError
from muster.cli.files import read_text
from muster.cli.main import command_line, run
from muster.schemas.base import NAME_PATTERN
from unit.cli.fake_muster import FakeMuster

JOB = "A" * 26
HOSTILE = {
    "empty": "",
    "an escape sequence": "a\x1b[2Jb",
    "a direction of text": "a\u202eb",
    "a carriage return": "a\rb",
    "no UTF-8": os.fsdecode(b"a\xff"),
    "very long": "x" * 70_000,
}
"""What is no value of any option."""
NUMBERS = {**HOSTILE, "words": "many", "nan": "nan", "infinite": "1e999", "huge": "9" * 40, "low": "-" + "9" * 40}
PATHS = {**HOSTILE, "a device that never ends": "/dev/zero", "below a file": __file__ + "/x"}


@dataclass(frozen=True)
class Place:
    """One parameter of one command."""

    words: tuple[str, ...]
    before: tuple[str, ...]
    """Values of the arguments before it."""
    param: typer.CallbackParam

    @property
    def hostile(self) -> dict[str, str]:
        annotation = str(getattr(self.param, "type_descriptor").annotation)  # noqa: B009 - typer keeps it untyped
        if "Path" in annotation:
            return HOSTILE if self.param.name in ("report", "output") else PATHS  # files to write may be devices
        return NUMBERS if "int" in annotation or "float" in annotation else HOSTILE


def places(command: object, words: tuple[str, ...] = ()) -> Iterator[Place]:
    """Every parameter that takes a value, of a command or of the commands of a group."""
    params: list[typer.CallbackParam] = getattr(command, "params", [])
    below: dict[str, object] = getattr(command, "commands", {})
    positional = [param for param in params if param.param_type_name == "argument"]
    for param in params:
        before = (JOB,) * positional.index(param) if param in positional else ()
        if not getattr(param, "is_flag", False):
            yield Place(words, before, param)
    for name, one in below.items():
        yield from places(one, (*words, name))


PLACES = {" ".join((*place.words, values.title(place.param))): place for place in places(command_line())}


def arguments(place: Place, value: str) -> list[str]:
    """The words of the command with this value of the parameter, and nothing else: parsing ends at it."""
    if place.param.param_type_name == "argument":
        return [*place.words, *place.before, "--", value]
    return [*place.words, *[f"{max(place.param.opts, key=len)}", *[value] * place.param.nargs]]


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """What a command that is refused says, in its one line."""
    assert run(words) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err[:8]) == ("", 1, "muster: "), err
    return err.removeprefix("muster: ").rstrip()


def test_every_command_is_looked_at() -> None:
    assert len(PLACES) > 250
    assert {"submit --gpus", "why ID", "routes set FILE", "queue --team", "--url", "upgrade start --select"} <= set(
        PLACES
    )


@pytest.mark.parametrize("name", PLACES)
def test_a_hostile_value_is_refused_in_one_line(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = PLACES[name]
    for what, value in place.hostile.items():
        line = told(capsys, *arguments(place, value))
        assert line.startswith(f"{values.title(place.param)}: "), (what, line)
        assert len(line) < 500, what


@pytest.mark.parametrize(
    "words",
    [
        ("why",),
        ("job",),
        ("trace",),
        ("stats",),
        ("watch",),
        ("events",),
        ("cancel", JOB),
        ("hold",),
        ("release",),
        ("reroute",),
        ("reserve", "a", "--for-job"),
        ("priority",),
        ("cordon",),
        ("drain",),
        ("resume",),
        ("health", "show"),
        ("health", "verify"),
        ("device", "attach", "--node"),
        ("device", "detach"),
        ("device", "detach", "--request"),
        ("device", "requests"),
        ("queue", "--queue"),
        ("queue", "--team"),
        ("top", "--team"),
        ("events", "--team"),
        ("cluster", "drain"),
        ("cluster", "resume"),
        ("cordon", "n", "--cluster"),
        ("scale",),
        ("scale", "--cluster"),
        ("webhook", "test"),
        ("upgrade", "status"),
        ("upgrade", "abort"),
        ("token", "revoke"),
        ("token", "create", "ann", "--team"),
        ("reserve", "a", "--for-queue"),
        ("queues", "set", "--parent"),
        ("submit", "--team"),
        ("kubernetes", "rbac", "--namespace"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("value", ["../../x", "..", "!!", "a b", "a\u00e4"])
def test_what_can_be_no_name_is_refused_before_a_stack_is_asked(
    words: tuple[str, ...], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = told(capsys, *words, value, *(["5"] if words == ("priority",) else []))
    assert f"'{value}' is not a valid " in line


def test_a_job_id_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    line = "ID: '../../x' is not a valid job id; give the 26 characters A-Z and 2-7 that `muster queue` shows"
    assert told(capsys, "why", "../../x") == line


@pytest.mark.parametrize("key", ["a\nb", "a b", "x" * 201, "\u00e4"])
def test_an_idempotency_key_is_a_header(capsys: pytest.CaptureFixture[str], key: str) -> None:
    assert told(capsys, "submit", "--gpus", "1", "--idempotency-key", key).startswith("--idempotency-key: '")


def test_what_the_parser_refuses_is_one_line_that_names_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "queue", "--limit", "many").startswith("--limit: 'many': should be a valid integer")
    assert told(capsys, "queue", "--limt", "1").startswith("No such option: --limt")
    assert told(capsys, "why") == "ID: is missing; give it; see `muster why --help`"


@pytest.mark.parametrize("value", ["ftp://x", "http://[::1", "host:80", "http://a b", "http://"])
@pytest.mark.parametrize(
    "words", [("--url",), ("init", "files", "--http-url"), ("guard", "audit", "d", "--url")], ids=" ".join
)
def test_an_address_is_a_url(words: tuple[str, ...], value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{words[-1]}: '{value}' is not a valid http URL; " in told(
        capsys, *words, value, *([] if words[0] != "--url" else ["queue"])
    )


@pytest.mark.parametrize("length", ["9" * 400 + "d", "101000d", "1e9d"])
def test_a_length_of_time_has_a_bound(length: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "token", "create", "ann", "--role", "viewer", "--expires-in", length)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--clusters", "!!"), "clusters.0"),
        (("--clusters", "a,a"), "federation"),
        (("--nodes", "9223372036854775807"), "fleet.nodes"),
        (("--nvlink-size", "5", "--fresh"), "fleet"),
    ],
)
def test_settings_of_a_start_are_checked_before_anything_starts(
    words: tuple[str, ...], field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = told(capsys, "up", "--detach", "--state-dir", str(tmp_path / "state"), *words)
    assert line.startswith(f"settings: {field}: ")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("value", ["0", "101%", "!!"])
def test_a_number_of_nodes_is_a_count_or_a_share(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a valid number of nodes" in told(capsys, "demo", "upgrade", "--max-unavailable", value)


def test_an_archive_is_a_regular_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    line = told(capsys, "log", "import", str(tmp_path / "pipe"), "--state-dir", str(tmp_path / "none"))
    assert "is not a regular file" in line


@pytest.mark.parametrize("content", ["a\0b", "[" * 100_000], ids=["zero", "deep"])
def test_a_kubeconfig_that_is_none_is_one_line(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text(content)
    assert told(capsys, "guard", "remove", "--kubeconfig", str(tmp_path / "config")).startswith("--kubeconfig: ")


def test_a_group_without_a_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log"]) == 2
    assert "export" in "".join(capsys.readouterr())


class Full(StringIO):
    """A stream on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("words", [("kubernetes", "crd"), ("kubernetes", "permissions"), ("--version",), ("--help",)])
def test_a_full_disk_is_one_line(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    assert run(words) == 2
    assert capsys.readouterr().err == (
        "muster: standard output: cannot be written (No space left on device); the result is not complete\n"
    )


def printed_to(out: int) -> CompletedProcess[str]:
    """Run a command that prints much in a process of its own, and close `out`."""
    code = "from muster.cli.main import main; import sys; sys.argv[1:] = ['kubernetes', 'crd']; main()"
    ended = run_process([sys.executable, "-c", code], stdout=out, stderr=PIPE, text=True, timeout=60, check=False)
    os.close(out)
    return ended


def test_a_process_ends_so_on_a_full_disk() -> None:
    ended = printed_to(os.open("/dev/full", os.O_WRONLY))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert ended.stderr.startswith("muster: standard output: cannot be written (")


def test_a_reader_that_leaves_early_gets_no_message() -> None:
    reader, out = os.pipe()
    os.close(reader)
    ended = printed_to(out)
    assert (ended.returncode, ended.stderr) == (1, "")


def refusal(path: Path, *, bytes_max: int = 100) -> str:
    with pytest.raises(CliError) as refused:
        read_text(path, bytes_max=bytes_max, form="job file")
    return str(refused.value)


def test_only_files_pipes_and_standard_input_are_read(tmp_path: Path) -> None:
    assert "not a regular file or a pipe" in refusal(Path("/dev/zero"))
    assert "is a directory" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "none")
    (tmp_path / "large").write_bytes(b"a" * 101)
    assert "is larger than 100 bytes" in refusal(tmp_path / "large")
    (tmp_path / "binary").write_bytes(b"a\xff")
    assert "not UTF-8 at byte 1" in refusal(tmp_path / "binary")


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("name: a",))
    writer.start()
    assert read_text(pipe, bytes_max=100, form="job file") == "name: a"
    writer.join()


def test_a_pipe_that_nobody_writes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WRITER_S_MAX", 0.01)
    os.mkfifo(tmp_path / "pipe")
    assert "no process writes to the pipe" in refusal(tmp_path / "pipe")


def test_standard_input_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"a" * 101)))
    assert refusal(Path("-")).startswith("standard input: is larger than 100 bytes")


def test_submit_reads_standard_input(muster: FakeMuster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"name: a\nteam: t\ntask_groups: [{gpus: 1}]\n")))
    assert run(["submit", "-"]) == 0
    assert [spec.name for spec in muster.specs] == ["a"]


def test_what_stands_behind_two_dashes_is_the_command(muster: FakeMuster) -> None:
    assert run(["submit", "--gpus", "8", "--", "python", "train.py", "--lr", "3", "a b", "$HOME", "--"]) == 0
    assert muster.specs[0].command == ("python", "train.py", "--lr", "3", "a b", "$HOME", "--")
    assert muster.specs[0].task_groups[0].gpus == 8


def test_one_word_behind_two_dashes_is_a_command_and_no_file(muster: FakeMuster) -> None:
    assert run(["submit", "--gpus", "1", "--", "nvidia-smi"]) == 0
    assert muster.specs[0].command == ("nvidia-smi",)


def test_the_command_is_given_once_and_not_beside_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    once = "--: give the command of the job once"
    assert told(capsys, "submit", "--gpus", "1", "--command", "a", "--", "b").startswith(once)
    assert told(capsys, "submit", "--gpus", "1", "--").startswith(once)
    assert told(capsys, "submit", "job.yaml", "--", "b").startswith("FILE and --: ")
    assert told(capsys, "submit", "job.yaml", "--priority", "3").startswith("FILE and --priority: ")
    long = told(capsys, "submit", "--gpus", "1", "--", "b", "x" * 2000)
    assert long.startswith("COMMAND: command.1: ")


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("--label", "a=1", "a=2"),
        ("--env", "A=1", "A=2"),
        ("--env-secret", "A=s/k", "A=s/l"),
    ],
)
def test_a_label_or_variable_has_one_value(
    option: str, one: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give it once" in told(capsys, "submit", "--gpus", "1", option, one, option, other)


def test_names_of_options_are_the_names_of_the_schemas() -> None:
    assert f"^{values.NAME}$" == NAME_PATTERN
