"""A house in memory for every test of the shell."""

from collections.abc import AsyncIterator

import pytest

from toys import House


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """Its shells end with the test."""
    house = House()
    yield house
    await house.end()
