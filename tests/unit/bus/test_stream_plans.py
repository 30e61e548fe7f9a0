"""Which streams a broker holds, by what it is: a whole stack, a centre, or a cell."""

from pathlib import Path
from typing import cast

import pytest
from nats.aio.client import Client
from pydantic import ValidationError

from muster.bus import jsapi, streams
from muster.bus.ports import ApiError
from muster.bus.settings import Settings
from muster.bus.streams import StreamPlan, bootstrap, plan

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


class FakeApi:
    """A server without streams, whose first attempts to create a store fail."""

    def __init__(self, *, failures: int, code: int = jsapi.NO_STORE) -> None:
        self.created: list[str] = []
        self._left, self._code = failures, code

    async def stream_info(self, _: Client, name: str) -> None:
        assert name not in self.created

    async def call(self, _: Client, request: str, __: object) -> bytes:
        if self._left:
            self._left -= 1
            raise ApiError(self._code, "error creating store for stream")
        self.created.append(request.removeprefix("STREAM.CREATE."))
        return b""


@pytest.mark.parametrize(("failures", "code", "is_created"), [(4, 10049, True), (5, 10049, False), (1, 10052, False)])
async def test_a_stream_whose_store_cannot_be_created_yet_is_tried_again(
    failures: int, code: int, is_created: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = FakeApi(failures=failures, code=code)
    monkeypatch.setattr(streams.jsapi, "stream_info", api.stream_info)
    monkeypatch.setattr(streams.jsapi, "call", api.call)
    monkeypatch.setattr(streams, "CREATE_PAUSE_S", 0.0)
    connection = cast("Client", None)
    if is_created:
        await bootstrap(connection, settings(cluster="atlas"))
        assert set(api.created) == set(plans(cluster="atlas"))
    else:
        with pytest.raises(ApiError, match=str(code)):
            await bootstrap(connection, settings(cluster="atlas"))
