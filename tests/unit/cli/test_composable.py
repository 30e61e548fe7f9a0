"""What `muster up` asks of scaling: a small composable group at the first start, then what is remembered."""

from pathlib import Path

from muster.bus.settings import Settings
from muster.cli import starting
from muster.cli.stack_commands import FleetOptions
from muster.scaler.config import config_of
from muster.stack.options import StartOptions, asked_settings
from muster.stack.state_dir import StateDir


def options(state_dir: Path, **asked: int | None) -> StartOptions:
    return starting.options(state_dir, fresh=False, split=False, http_port=None, fleet=FleetOptions(**asked))


def started(state_dir: Path, **asked: int | None) -> Settings:
    """As `up` would: what is asked becomes what the directory remembers."""
    settings = asked_settings(options(state_dir, **asked))
    StateDir(state_dir).settings.write_text(settings.model_dump_json())
    return settings


def test_a_first_start_has_nodes_without_gpus_and_a_pool(tmp_path: Path) -> None:
    settings = started(tmp_path)
    (group,), (fabric,) = settings.scaling.groups, settings.fabrics
    assert (group.nodes, group.gpus, group.gpus_max) == (2, 0, 8)
    assert fabric.simulated is not None
    assert sum(fabric.simulated.pool.values()) == 8
    config_of(settings.scaling, settings.fabrics)  # as the scaler reads it: nothing contradicts itself


def test_a_later_start_keeps_what_it_was_told_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    started(tmp_path, composable=3, pool=5)
    again = started(tmp_path)
    assert again.scaling.groups[0].nodes == 3
    assert started(tmp_path, composable=0).fabrics == ()
    assert started(tmp_path).scaling.groups == ()


def test_a_stack_that_names_no_groups_has_none(tmp_path: Path) -> None:
    plain = asked_settings(StartOptions(state_dir=tmp_path))
    assert (plain.scaling.groups, plain.fabrics) == ((), ())
