"""Benchmark of attachments and detachments over a failing fabric, with leaders that change during calls.

It runs the composer's core over a model of a fabric, in virtual time. Calls of a former leader are lost, but the fabric
carries them out. The true state of the fabric is compared with the log at every quiescent moment and at the end.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from muster.cli.errors import refused
from muster.cli.machine import this_machine
from muster.cli.options import Output
from muster.cli.progress import counting
from muster.core import Fact, after
from muster.core.seeded import uniform
from muster.schemas.devices import ComposabilitySpec, RequestPhase
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, RequestMoved
from muster.schemas.facts.scale import ScaleChosen, ScalePart
from muster_tools.bench.faults_harness import START
from muster_tools.bench.faults_plan import CHECKPOINTS, Found, Plan
from muster_tools.bench.faults_stage import FABRIC, MODEL, Harness
from muster_tools.bench.figures import print_figures


class People:
    """Requests and returns devices, `busy` requests at a time: half as users do, half as the scaler does."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._numbers = itertools.count(1)
        self._open: set[str] = set()
        self.goes_on = True
        harness.folds.append(self._fold)

    def start(self) -> None:
        """Start all requests at once."""
        for _ in range(self._harness.plan.busy):
            self._ask()

    @property
    def is_idle(self) -> bool:
        """Return whether no request is open."""
        return not self._open

    def _ask(self) -> None:
        harness, number = self._harness, next(self._numbers)
        size = 1 + int(3 * self._draw("size", number))
        if number % 2:
            name = f"r{number:05}"
            spec = ComposabilitySpec(model=MODEL, size=size)
            self._open.add(name)
            harness.write(
                "federation", "composability", name, "compose-forwarded", ComposeRequested(spec=spec, principal="ann")
            )
            return
        name = f"s{number:06}"
        node = list(harness.machines)[int(harness.plan.nodes * self._draw("node", number))]
        parts = (ScalePart(node=node, count=size, fabric=FABRIC, device_model=MODEL),)
        self._open.add(name)
        harness.write("scaler", "scale", name, "gpu-attach-chosen", ScaleChosen(case=1, count=size, parts=parts))

    def _fold(self, fact: Fact) -> None:
        if fact.kind != "composability" or fact.subject_id not in self._open:
            return
        name, harness = fact.subject_id, self._harness
        if isinstance(fact.payload, RequestMoved) and fact.payload.phase is RequestPhase.RUNNING:
            hold_s = 20.0 * self._draw("hold", name)
            harness.at(after(harness.now, hold_s), lambda: self._give_back(name))
        elif fact.name in ("ended", "refused"):
            self._open.discard(name)
            if self.goes_on:
                harness.at(after(harness.now, 0.1), self._ask)

    def _give_back(self, name: str) -> None:
        harness = self._harness
        if name not in self._open:
            return
        if name.startswith("r"):
            payload = DecomposeRequested(principal="ann")
            harness.write("federation", "composability", name, "decompose-forwarded", payload)
            return
        request = harness.core.state.requests[name]
        devices = tuple(harness.core.state.attachments[one].device_uuid for one in request.attachments)
        if devices:
            chosen = ScaleChosen(case=3, devices=devices)
            harness.write("scaler", "scale", f"{name}-back-{harness.seq}", "gpu-remove-chosen", chosen)
            harness.at(after(harness.now, 150.0), lambda: self._give_back(name))

    def _draw(self, *purpose: str | int) -> float:
        return uniform(self._harness.plan.seed, "people", *purpose)


DAY_S = 86_400.0
QUIET_S = 1_800.0
"""Virtual time for all operations to settle at the end."""

__all__ = ["Found", "Plan", "measure"]


def measure(plan: Plan, *, done: Callable[[], None] = lambda: None) -> Found:
    """Run the plan to the end. done: called after each of the plan's turns. Raises NeverSettlesError."""
    harness = Harness(plan)
    people = People(harness)
    harness.agent.start()
    harness.run(after(START, 5.0))
    harness.checkpoint()
    people.start()
    for turn, target in enumerate(plan.turns, 1):
        harness.run(after(harness.now, DAY_S), stop=partial(_is_reached, harness, plan, target))
        done()
        if turn % (CHECKPOINTS + 1):
            harness.checkpoint()
        else:
            harness.change_leader()
    people.goes_on = False
    harness.run(after(harness.now, DAY_S), stop=lambda: people.is_idle)
    harness.run(after(harness.now, QUIET_S))
    return harness.report()


def _is_reached(harness: Harness, plan: Plan, target: int) -> bool:
    """Return whether this many cycles are done and an attach call is running: the moment to change the leader."""
    return harness.ledger.cycles >= target and bool(harness.ledger.attaching or target >= plan.cycles)


def run(plan: Plan, form: Output) -> None:
    """Run the benchmark and print its results. Raises CliError if a device was lost or attached twice."""
    machine = this_machine()
    begun_s = time.perf_counter()
    with counting("turns", total=len(plan.turns)) as advance:
        found = measure(plan, done=advance)
    took_s = time.perf_counter() - begun_s
    document = {**asdict(plan), **asdict(found), "took_s": round(took_s, 3)}
    print_figures(machine, document, _rows(plan, found, took_s), form=form)
    wrong = found.leaked + found.doubly_attached + found.misplaced + found.withheld
    if wrong:
        raise refused(f"log and fabric disagree about {wrong} devices; to reproduce it, use --seed {plan.seed}")


def _rows(plan: Plan, found: Found, took_s: float) -> list[tuple[str, str]]:
    told = ", ".join(f"{count} {what}" for what, count in sorted(found.told.items()))
    return [
        (
            "input",
            f"{plan.nodes} nodes, {plan.pool} devices in the pool, {plan.limit} concurrent calls, seed {plan.seed}",
        ),
        ("time", f"{took_s:.1f} s for {found.virtual_s / 3600:.1f} h of virtual time and {found.facts:,} facts"),
        ("cycles", f"{found.cycles:,} attached and detached, {found.calls:,} calls, {plan.faults:.1%} with a fault"),
        ("outcomes", told),
        (
            "time-outs after success",
            f"{found.timeouts_after_success:,}, {found.timeouts_after_attach:,} of attachments",
        ),
        ("leader changes", f"{found.leader_changes:,}, {found.leader_changes_in_attach:,} during an attach"),
        ("  calls lost with a leader", f"{found.calls_lost:,}"),
        ("retries", f"{found.retries:,}"),
        ("adoptions", f"{found.adoptions:,}"),
        ("orphans", f"{found.orphans_found:,} found, {found.orphans_returned:,} returned or adopted"),
        ("given up", f"{found.detachments_given_up:,} detachments, {found.requests_failed:,} requests"),
        ("concurrent calls", f"{found.in_flight_max} at most, {found.limit} allowed"),
        ("compared with the fabric", f"{found.quiet_moments:,} times and at the end"),
        ("leaked", str(found.leaked)),
        ("doubly attached", str(found.doubly_attached)),
        ("not on the machine in the log", str(found.misplaced)),
        ("drained without a reason", str(found.withheld)),
    ]
