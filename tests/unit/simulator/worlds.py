"""Scenarios as dictionaries, played."""

import json

from muster.simulator.scenario import ScenarioOutcome, parse, simulate


def node(name: str = "n0", gpus: int = 8, **more: object) -> dict[str, object]:
    return {"name": name, "gpus": gpus, **more}


def running(name: str, queue: str, gpus: float, node: str = "n0", **more: object) -> dict[str, object]:
    return {"name": name, "queue": queue, "gpus": gpus, "state": "running", "node": node, **more}


def pending(name: str, queue: str, gpus: float, **more: object) -> dict[str, object]:
    return {"name": name, "queue": queue, "gpus": gpus, **more}


def play(*, after_s: float = 0.0, **parts: object) -> ScenarioOutcome:
    return simulate(parse(json.dumps(parts)), after_s=after_s)
