"""A house in memory for every test of the shell."""

from collections.abc import AsyncIterator

import pytest

from kit.toys import MemoryHouse


@pytest.fixture
async def house() -> AsyncIterator[MemoryHouse]:
    """Its shells end with the test."""
    house = MemoryHouse()
    yield house
    await house.end()
