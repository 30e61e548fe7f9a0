"""A fleet of 200 nodes full of week-long jobs is upgraded in virtual time, and nobody is killed for it."""

from muster.schemas.facts.node import RunningJobs
from muster_tools.demo.upgrade.run import campaign, drained_by_hand, left_alone, upgraded_in_turns
from muster_tools.demo.upgrade.scene import GPUS, WEEK_S, Scene

HOUR_S = 3600.0


def test_two_hundred_nodes_under_full_load_are_upgraded_without_killing_a_job() -> None:
    scene = Scene(nodes=200)
    spec = campaign(scene, max_unavailable="5%")
    mine = upgraded_in_turns(scene, spec)
    assert mine.killed == 0
    assert mine.moved == 0
    assert mine.upgraded == 200
    assert mine.nodes_out <= 10
    assert mine.took_s is not None
    assert mine.took_s < WEEK_S + 24 * HOUR_S, "the longest job, and a turn or two behind it"
    least_gpu_h = 200 * GPUS * (scene.action_s + scene.check_s) / HOUR_S
    idle_gpu_h = mine.idle_gpu_h - left_alone(scene, for_s=mine.took_s)
    assert idle_gpu_h < 2 * least_gpu_h, "hardly more than the upgrades themselves"
    naive = drained_by_hand(scene, spec)
    assert naive.upgraded == 200
    assert naive.killed > 50
    assert naive.redone_gpu_h > 20 * idle_gpu_h


def test_jobs_that_allow_it_are_moved_once_each_and_no_work_is_done_again() -> None:
    scene = Scene(nodes=24, may_move=True, long_s=2 * 24 * HOUR_S)
    mine = upgraded_in_turns(scene, campaign(scene, max_unavailable="3", running=RunningJobs.MOVE))
    assert mine.killed == 0
    assert mine.moved > 0
    assert mine.upgraded == 24
    assert mine.took_s is not None
    assert mine.took_s < 24 * HOUR_S, "it does not wait for the end of jobs"
    assert mine.redone_gpu_h < mine.moved * GPUS * 0.1


def test_the_same_seed_gives_the_same_upgrade() -> None:
    scene = Scene(nodes=12, long_s=12 * HOUR_S, seed=7)
    spec = campaign(scene, max_unavailable="2")
    assert upgraded_in_turns(scene, spec) == upgraded_in_turns(scene, spec)
