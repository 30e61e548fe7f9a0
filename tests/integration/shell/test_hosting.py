"""Services hosted over a real nats-server, each with the rights of its own user."""

import pytest
from houses import RealHouse, until_leading
from toys import Releasing, agent, scheduler, until

pytestmark = pytest.mark.connected


async def test_services_in_one_process_work_together_and_decode_a_fact_once(house: RealHouse) -> None:
    hosting = await house.host(scheduler(), agent("n1", "n2", "n3"))
    first = hosting.shells[0]
    await until(lambda: first.leading and first.core.released == {"n1", "n2", "n3"})  # type: ignore[attr-defined]
    await until(lambda: {shell.folded_seq for shell in hosting.shells} == {first.folded_seq})
    assert first.log.counters.decoded == first.folded_seq  # type: ignore[attr-defined]
