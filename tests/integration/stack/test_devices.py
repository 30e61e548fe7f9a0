"""Devices that come and go on a whole stack: the demonstrations, with one process for all services."""

from pathlib import Path

import psutil
import pytest

from kit.stack.devices import ALL_DEVICES, open_devices_harness
from muster_tools.demo.devices import play_all
from muster_tools.demo.stories import STORIES

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240)]

RSS_MIB_MAX = 1024


async def test_every_demonstration_passes_and_breaks_no_invariant(tmp_path: Path) -> None:
    async with open_devices_harness(tmp_path / "state") as there:
        played = await play_all(there.stage)
        assert {one.name: one.problem for one in played} == {name: "" for name, _, _ in STORIES}
        assert all(one.decisions and all(choice.reason for choice in one.decisions) for one in played)
        assert {choice.case for choice in played[-1].decisions} == {4}
        assert {"scheduler", "scaler", "composer", "agent", "fabric"} <= set(played[0].crossed)
        assert await there.harness.metric("muster_scale_choices_total", outcome="done") > 0
        assert await there.harness.metric("muster_attach_seconds_count") > 0
        jobs = [job.id for job in await there.harness.muster.list()]
        assert await there.harness.violations(jobs, all_ended=False) == []
        assert await there.free() == ALL_DEVICES
        rss_mib = {child.name: psutil.Process(child.pid).memory_info().rss / 2**20
                   for child in there.harness.stack.children() if child.pid}  # fmt: skip
        assert "fabric-simulator" in rss_mib
        assert sum(rss_mib.values()) < RSS_MIB_MAX, rss_mib
