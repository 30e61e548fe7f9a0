"""Jobs of any GPU model and of whole nodes, where quota counts what they will hold and not what they request."""

from unit.simulator.worlds import node, pending, play, running

LENT = {"name": "lab", "preemption": {"fair_share": [], "over_slice": "never"}, "starving_after_s": 1_000_000}
RECLAIM = {"within_queue": "lower-priority", "reclaim": "lower-priority"}


def test_a_job_of_any_model_preempts_where_the_quota_of_each_model_is_used() -> None:
    outcome = play(
        nodes=[node("a", model="A100", count=2), node("h", model="H100", count=2)],
        queues=[{"name": "q", "quota": {"gpu:A100": 8, "gpu:H100": 8}}],
        jobs=[
            running("low-a", "q", 8, "a-0", model="A100", priority=10),
            running("low-h", "q", 8, "h-0", model="H100", priority=20),
            pending("high", "q", 8, priority=90),
        ],
    )
    assert outcome.jobs["high"].state == "running"
    assert (outcome.jobs["low-a"].state, outcome.jobs["low-h"].state) == ("pending", "running"), "the lower priority"


def test_a_job_of_any_model_reclaims_the_model_that_is_lent_before_it_stops_a_job_of_its_queue() -> None:
    outcome = play(
        nodes=[node("a", model="A100", count=2), node("h", model="H100", count=2)],
        queues=[
            LENT,
            {"name": "own", "parent": "lab", "quota": {"gpu:A100": 8, "gpu:H100": 8}, "preemption": RECLAIM},
            {"name": "borrows", "parent": "lab", "preemption": RECLAIM},
        ],
        jobs=[
            running("mine", "own", 8, "a-0", model="A100", priority=50),
            running("lent", "borrows", 8, "h-0", model="H100", priority=50),
            pending("new", "own", 8, priority=60),
        ],
    )
    assert {name: job.state for name, job in outcome.jobs.items()} == {
        "mine": "running", "lent": "pending", "new": "running",
    }  # fmt: skip


def test_a_job_of_whole_nodes_preempts_by_all_gpus_that_it_will_hold() -> None:
    outcome = play(
        nodes=[node("n", count=2)],
        queues=[{"name": "q", "quota": {"gpu": 8}}],
        jobs=[running("low", "q", 7, "n-0", priority=10), pending("high", "q", 1, full_node=True, priority=90)],
    )
    assert (outcome.jobs["high"].state, outcome.jobs["low"].state) == ("running", "pending")


def test_no_start_is_told_to_a_job_of_any_model_while_the_quota_of_every_model_is_used() -> None:
    outcome = play(
        nodes=[node("a", model="A100", count=2), node("h", model="H100", count=2)],
        queues=[{"name": "q", "quota": {"gpu:A100": 8, "gpu:H100": 8}, "preemption": {"within_queue": "never"}}],
        jobs=[
            running("one", "q", 8, "a-0", model="A100"),
            running("two", "q", 8, "h-0", model="H100"),
            pending("next", "q", 8),
        ],
    )
    waiting = outcome.jobs["next"]
    assert (waiting.state, waiting.reason) == ("pending", "quota")
    assert waiting.expected_start_s is None or waiting.expected_start_s > 60
