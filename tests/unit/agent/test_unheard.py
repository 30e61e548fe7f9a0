"""Whoever works a cluster ends what cannot be told to end, and only while its service leads."""

import logging
from collections.abc import Sequence
from typing import cast

import pytest
from nats.aio.client import Client

from muster.agent.core.core import AgentCore
from muster.agent.unheard import Unheard
from muster.bus.service import LeaderHandle
from muster.core import Core, Fact, Instant

NOW = Instant(1)


class Inner:
    """A sink that only remembers what it was asked."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        self.asked.append("open")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        self.asked.append("work")

    async def close(self) -> None:
        self.asked.append("close")


class Told(AgentCore):
    """A core with something to end."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked
        self.to_end = 1

    def end_unheard(self, now: Instant) -> int:
        assert now == NOW
        self.asked.append("end")
        return self.to_end


@pytest.fixture
def asked() -> list[str]:
    return []


async def opened(asked: list[str], *, leads: bool = True) -> tuple[Unheard, Told]:
    core, sink = Told(asked), Unheard(Inner(asked))
    await sink.open(core, cast("Client", None), LeaderHandle(leads=lambda: leads))
    return sink, core


async def test_pods_end_before_the_cluster_is_worked(asked: list[str]) -> None:
    sink, _ = await opened(asked)
    await sink.after_fold((), last_seq=1, now=NOW)
    await sink.close()
    assert asked == ["open", "end", "work", "close"]


async def test_who_does_not_lead_ends_nothing(asked: list[str]) -> None:
    sink, _ = await opened(asked, leads=False)
    await sink.after_fold((), last_seq=1, now=NOW)
    assert asked == ["open", "work"]


async def test_it_is_told_once_as_long_as_it_lasts(asked: list[str], caplog: pytest.LogCaptureFixture) -> None:
    sink, core = await opened(asked)
    for to_end in (1, 1, 0, 1):
        core.to_end = to_end
        await sink.after_fold((), last_seq=1, now=NOW)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
