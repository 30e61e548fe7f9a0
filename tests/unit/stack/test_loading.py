"""What a start of a stack loads: the services' declarations load little, and the services no client of Kubernetes."""

import subprocess
import sys

import pytest

from muster.stack.declared import SERVICES

SAY = """
import importlib, sys
for service in sys.argv[2:]:
    importlib.import_module(f"muster.{service}.{sys.argv[1]}")
print(*sys.modules)
"""


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("declaration", {"aiohttp", "fastapi", "faststream", "kubernetes", "redis", "muster.bus.process"}),
        ("app", {"kubernetes", "matplotlib"}),
    ],
)
def test_services_load_nothing_that_they_may_never_need(module: str, absent: set[str]) -> None:
    argv = [sys.executable, "-c", SAY, module, *SERVICES]
    loaded = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert f"muster.gateway.{module}" in loaded
    assert absent.isdisjoint(loaded)
