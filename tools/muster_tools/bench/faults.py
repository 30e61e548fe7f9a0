"""Thousands of attachments and detachments over a fabric that fails, with leaders that change in mid-call.

The composer's core over a model of a fabric, in virtual time. Calls of a deposed leader are lost while the fabric
carries them on. What the fabric really holds is compared with what the log says, at every quiet moment and at the end.
"""

from collections.abc import Callable
from functools import partial

from muster.core import after
from muster_tools.bench.faults_house import START
from muster_tools.bench.faults_people import People
from muster_tools.bench.faults_plan import CHECKPOINTS, Found, Plan
from muster_tools.bench.faults_stage import House

DAY_S = 86_400.0
QUIET_S = 1_800.0
"""Virtual time for everything to come to rest at the end."""

__all__ = ["Found", "Plan", "measure"]


def measure(plan: Plan, *, done: Callable[[], None] = lambda: None) -> Found:
    """Run it to the end. done: told after each of the plan's turns. Raises NeverSettlesError."""
    house = House(plan)
    people = People(house)
    house.agent.start()
    house.run(after(START, 5.0))
    house.checkpoint()
    people.start()
    for turn, target in enumerate(plan.turns, 1):
        house.run(after(house.now, DAY_S), stop=partial(_is_reached, house, plan, target))
        done()
        if turn % (CHECKPOINTS + 1):
            house.checkpoint()
        else:
            house.change_leader()
    people.goes_on = False
    house.run(after(house.now, DAY_S), stop=lambda: people.is_idle)
    house.run(after(house.now, QUIET_S))
    return house.report()


def _is_reached(house: House, plan: Plan, target: int) -> bool:
    """So many cycles, and a call to attach is under way: that is when leaders change."""
    return house.ledger.cycles >= target and bool(house.ledger.attaching or target >= plan.cycles)
