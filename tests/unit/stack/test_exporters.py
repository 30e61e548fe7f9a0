"""Simulated exporters of a stack: whether there are any, and where."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from muster.bus.settings import Settings
from muster.stack.options import StartOptions, endpoints_of, new_settings, wanted_ports
from muster.stack.simulators import have_simulator, with_exporters
from muster.telemetry.app import url_of


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"state_dir": "/x", "credentials_dir": "/x", **sections})


REAL = {"kubernetes": {}}


def test_a_simulated_cluster_has_exporters_unless_somebody_says_otherwise() -> None:
    assert have_simulator(settings())
    assert not have_simulator(settings(telemetry={"enabled": False}))
    assert not have_simulator(settings(simulation={"telemetry_interval_s": 0}))
    assert not have_simulator(settings(telemetry={"url": "http://{node}.lab:9400/metrics"}))
    assert not have_simulator(settings(**REAL))


def test_their_address_is_that_of_this_start() -> None:
    first = with_exporters(settings(), port=1111)
    assert url_of(first) == "http://127.0.0.1:1111/nodes/{node}/metrics"
    assert have_simulator(first), "what the last start wrote is not somebody's own address"
    assert "2222" in url_of(with_exporters(first, port=2222))


def test_somebodys_own_address_stays() -> None:
    own = settings(telemetry={"url": "http://{node}.lab:9400/metrics"})
    assert with_exporters(own, port=1111) == own


def test_a_real_cluster_is_asked_at_the_address_of_its_nodes() -> None:
    assert url_of(settings(**REAL)) == "http://{address}:9400/metrics"
    assert url_of(settings()) == "", "without a simulator nobody is asked"
    assert url_of(settings(**REAL, telemetry={"enabled": False})) == ""


@pytest.mark.parametrize("url", ["http://node:9400/metrics", "ftp://{node}/", "http://{host}/metrics"])
def test_an_address_that_is_the_same_for_all_nodes_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="write http://HOST:PORT/PATH"):
        settings(telemetry={"url": url})


def test_a_port_is_taken_only_where_there_are_some(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path)
    assert "dcgm" not in wanted_ports(options, {"dcgm": 7})
    ports = wanted_ports(options, {"dcgm": 7}, exporters=True)
    assert ports["dcgm"] == 7
    made = new_settings(options, endpoints_of(ports, redis_url="redis://x", processes=("all",)))
    assert made.telemetry.url == "http://127.0.0.1:7/nodes/{node}/metrics"
