"""What the command line's tests share."""

import pytest

from muster.client import Muster
from unit.cli.fake_muster import FakeMuster


@pytest.fixture
def muster(monkeypatch: pytest.MonkeyPatch) -> FakeMuster:
    """Whatever a command asks, this answers."""
    fake = FakeMuster()
    monkeypatch.setattr(Muster, "from_state_dir", lambda *_, **__: fake)
    return fake
