"""People and a scaler who ask for devices and give them back, as long as it goes on."""

import itertools

from muster.core import Fact, after
from muster.core.seeded import uniform
from muster.schemas.devices import ComposabilitySpec, RequestPhase
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, RequestMoved
from muster.schemas.facts.scale import ScaleChosen, ScalePart
from muster_tools.bench.faults_stage import FABRIC, MODEL, House


class People:
    """Asks for devices and gives them back, `busy` requests at a time: half by hand, half as the scaler does."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._numbers = itertools.count(1)
        self._open: set[str] = set()
        self.goes_on = True
        house.folds.append(self._fold)

    def start(self) -> None:
        """All at once."""
        for _ in range(self._house.plan.busy):
            self._ask()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked any more."""
        return not self._open

    def _ask(self) -> None:
        house, number = self._house, next(self._numbers)
        size = 1 + int(3 * self._draw("size", number))
        if number % 2:
            name = f"r{number:05}"
            spec = ComposabilitySpec(model=MODEL, size=size)
            self._open.add(name)
            house.write(
                "federation", "composability", name, "compose-forwarded", ComposeRequested(spec=spec, principal="ann")
            )
            return
        name = f"s{number:06}"
        node = list(house.machines)[int(house.plan.nodes * self._draw("node", number))]
        parts = (ScalePart(node=node, count=size, fabric=FABRIC, device_model=MODEL),)
        self._open.add(name)
        house.write("scaler", "scale", name, "gpu-attach-chosen", ScaleChosen(case=1, count=size, parts=parts))

    def _fold(self, fact: Fact) -> None:
        if fact.kind != "composability" or fact.subject_id not in self._open:
            return
        name, house = fact.subject_id, self._house
        if isinstance(fact.payload, RequestMoved) and fact.payload.phase is RequestPhase.RUNNING:
            hold_s = 20.0 * self._draw("hold", name)
            house.at(after(house.now, hold_s), lambda: self._give_back(name))
        elif fact.name in ("ended", "refused"):
            self._open.discard(name)
            if self.goes_on:
                house.at(after(house.now, 0.1), self._ask)

    def _give_back(self, name: str) -> None:
        house = self._house
        if name not in self._open:
            return
        if name.startswith("r"):
            payload = DecomposeRequested(principal="ann")
            house.write("federation", "composability", name, "decompose-forwarded", payload)
            return
        request = house.core.state.requests[name]
        devices = tuple(house.core.state.attachments[one].device_uuid for one in request.attachments)
        if devices:
            chosen = ScaleChosen(case=3, devices=devices)
            house.write("scaler", "scale", f"{name}-back-{house.seq}", "gpu-remove-chosen", chosen)
            house.at(after(house.now, 150.0), lambda: self._give_back(name))

    def _draw(self, *purpose: str | int) -> float:
        return uniform(self._house.plan.seed, "people", *purpose)
