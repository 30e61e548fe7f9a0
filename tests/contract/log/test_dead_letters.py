"""`muster log dead`: what the administrator's user sees of the stream of dead letters."""

from pathlib import Path

from contract.log.suite import CLUSTER
from kit.servers import NatsServer
from muster.bus.access import ADMIN_TOOLS
from muster.bus.dead import NatsDeadLetters
from muster.bus.decode import Dead
from muster.bus.ports import LogCounters
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.cli.log_files import as_json, dead_letter_rows, newest_dead_letters
from muster.core.instant import Instant


async def test_the_newest_letters_are_listed_oldest_first_with_what_is_wrong(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    maker = await nats_server.connect("bootstrap")
    await bootstrap(maker, Settings(state_dir=tmp_path, credentials_dir=tmp_path, cluster=CLUSTER))
    asking = await nats_server.connect(ADMIN_TOOLS)
    assert await newest_dead_letters(asking, limit=10) == []
    scheduler = await nats_server.connect("scheduler")
    letters = NatsDeadLetters(scheduler, LogCounters())
    for seq in (3, 5, 5, 8):
        dead = Dead(seq, Instant(1), f"muster.{CLUSTER}.agent.job.X.placed", f"wrong\nbody {seq}")
        await letters.bury(f"LOG_{CLUSTER}", dead, {"ce-id": "x"}, b'{"attempt": "\xff"}')
    found = await newest_dead_letters(asking, limit=2)
    assert [(row[1], row[2], row[5]) for row in dead_letter_rows(found, now_ns=found[0].time)] == [
        (f"LOG_{CLUSTER}", "5", "wrong body 5"),
        (f"LOG_{CLUSTER}", "8", "wrong body 8"),
    ]
    told = as_json(found[0])
    assert (told["seq"], told["body"]) == (5, '{"attempt": "\ufffd"}')
    for client in (maker, asking, scheduler):
        await client.close()
