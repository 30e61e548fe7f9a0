"""A harness in memory for every test of the shell."""

from collections.abc import AsyncIterator

import pytest

from kit.toys import MemoryHarness


@pytest.fixture
async def harness() -> AsyncIterator[MemoryHarness]:
    """Its shells end with the test."""
    harness = MemoryHarness()
    yield harness
    await harness.end()
