"""The dashboard's types agree with the models they are written after."""

import dataclasses
import re
from enum import StrEnum
from pathlib import Path

import pytest

from muster.schemas import (
    access,
    apiserver,
    campaigns,
    conditions,
    devices,
    live,
    members,
    queries,
    routing,
    telemetry,
    usage,
    views,
)
from muster.schemas.base import Wire
from muster.schemas.facts import guard, health, queue, reservation, scale, upgrade
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.facts.health import FaultClass, HealthPhase
from muster.schemas.job import Phase, Slot
from muster.schemas.record import Record

SOURCES = Path(__file__).parents[2] / "services" / "dashboard" / "src"
INTERFACE = re.compile(r"^export interface (?P<name>\w+) \{\n(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  (\w+): ", re.MULTILINE)
MODULES = (
    *(access, apiserver, campaigns, conditions, devices, live, members, queries, routing, telemetry, usage, views),
    *(guard, health, queue, reservation, scale, upgrade),
)
MODELS: dict[str, type[Wire | Record]] = {"Slot": Slot} | {
    name: model
    for module in MODULES
    for name, model in vars(module).items()
    if isinstance(model, type) and issubclass(model, Wire | Record)
}


def sources() -> str:
    """Everything that is written after models."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("wire*.ts")))


def interfaces() -> dict[str, list[str]]:
    """Field names of every interface, in their order."""
    return {found["name"]: FIELD.findall(found["body"]) for found in INTERFACE.finditer(sources())}


def fields_of(model: type[Wire | Record]) -> list[str]:
    """Names of a model's fields, in their order."""
    if issubclass(model, Wire):
        return list(model.model_fields)
    return [field.name for field in dataclasses.fields(model)]


@pytest.mark.parametrize("name", sorted(interfaces()))
def test_an_interface_has_the_fields_of_its_model(name: str) -> None:
    assert name in MODELS, f"{name} in wire.ts is no model of muster.schemas"
    assert interfaces()[name] == fields_of(MODELS[name])


@pytest.mark.parametrize(
    "name",
    [
        *("LiveSlice", "LiveTelemetry", "Snapshot", "LiveCredential", "JobView", "Problem", "ApiServerReport"),
        *("ConditionsAnswer", "Top", "Idle", "JobUse", "CampaignView", "FederationView", "RoutesView"),
    ],
)
def test_what_the_dashboard_lives_on_is_among_them(name: str) -> None:
    assert name in interfaces()


@pytest.mark.parametrize(
    ("name", "words"),
    [("Phase", Phase), ("HealthPhase", HealthPhase), ("FaultClass", FaultClass), ("ClusterPhase", ClusterPhase)],
)
def test_the_words_of_a_type_are_all_there(name: str, words: type[StrEnum]) -> None:
    said = re.search(rf"export type {name} =(.*?);", sources(), re.DOTALL)
    assert said is not None
    assert re.findall(r'"([\w-]+)"', said[1]) == [word.value for word in words]
