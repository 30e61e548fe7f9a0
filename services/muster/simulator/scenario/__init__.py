"""Scenario files: a cluster in a few lines, what its scheduler does with it, and what it should do."""

from muster.simulator.scenario.model import Scenario, parse
from muster.simulator.scenario.outcome import ScenarioOutcome, differences
from muster.simulator.scenario.run import simulate

__all__ = ["Scenario", "ScenarioOutcome", "differences", "parse", "simulate"]
