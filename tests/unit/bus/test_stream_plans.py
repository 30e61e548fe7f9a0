"""Which streams a broker holds, by what it is: a whole stack, a centre, or a cell."""

from pathlib import Path
from typing import cast

import pytest
from pydantic import ValidationError

from muster.bus.settings import Settings
from muster.bus.streams import StreamPlan, plan

BOTH = {"clusters": [{"name": "east"}, {"name": "west"}]}


def settings(**fields: object) -> Settings:
    return Settings.model_validate({"state_dir": Path("/s"), "credentials_dir": Path("/c"), **fields})


def plans(**fields: object) -> dict[str, StreamPlan]:
    return {stream.name: stream for stream in plan(settings(**fields))}


def external(source: object) -> str:
    told = cast("dict[str, dict[str, str]]", source).get("external", {})
    return told.get("api", "")


def test_a_whole_stack_has_everything_and_takes_nothing_from_elsewhere() -> None:
    found = plans(cluster="atlas")
    assert {"FED", "FED_UP", "LOG_atlas", "TELEMETRY_atlas", "LOGS_atlas", "DEAD"} <= set(found)
    assert not any(external(source) for stream in found.values() for source in stream.sources)
    assert not any("mirror" in stream.config for stream in found.values())


def test_a_centre_copies_logs_and_output_from_each_cells_domain_and_reports_come_from_the_copies() -> None:
    found = plans(role="centre", federation=BOTH)
    for cluster in ("east", "west"):
        for stream in (f"LOG_{cluster}", f"LOGS_{cluster}", f"OBJ_checkpoints_{cluster}"):
            assert external(found[stream].config["mirror"]) == f"$JS.{cluster}.API"
            assert "subjects" not in found[stream].config
    assert [(source["name"], external(source)) for source in found["FED_UP"].sources] == [
        ("LOG_east", ""),
        ("LOG_west", ""),
    ]


def test_a_cell_has_its_own_log_alone_and_takes_what_is_addressed_to_it_from_the_centre() -> None:
    found = plans(role="cell", cluster="east", federation=BOTH)
    assert not {"FED", "FED_UP", "LOG_west"} & set(found)
    (source,) = found["LOG_east"].sources
    assert external(source) == "$JS.fed.API"
    transforms = [{"src": "muster.fed.federation.east.>", "dest": "muster.east.federation.>"}]
    assert source["subject_transforms"] == transforms


def test_a_centre_without_clusters_and_one_named_otherwise_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"federation\.clusters"):
        settings(role="centre")
    with pytest.raises(ValidationError, match="north"):
        settings(role="centre", cluster="north", federation=BOTH)
    assert settings(role="centre", federation=BOTH).cluster == "east"
