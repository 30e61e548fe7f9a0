"""What a scenario's running jobs are, and what becomes of its pending ones. Policy has examples of its own."""

from unit.simulator.worlds import node, pending, play, running


def test_the_smallest_scenario_places_its_job() -> None:
    outcome = play(nodes=[{"name": "n0", "gpus": 8}], queues=[{"name": "q"}], jobs=[pending("a", "q", 4)])
    job = outcome.jobs["a"]
    assert (job.state, job.nodes, job.devices, job.reason) == ("running", ("n0",), ((0, 1, 2, 3),), "")
    assert outcome.stable
    assert outcome.queues["q"].held["gpu"] == 4
    assert (outcome.queues["q"].running, outcome.queues["q"].pending) == (1, 0)


def test_a_running_job_stays_where_the_file_says() -> None:
    outcome = play(
        nodes=[node("n0"), node("n1")],
        queues=[{"name": "q"}],
        jobs=[{"name": "a", "queue": "q", "gpus": 4, "replicas": 3, "state": "running", "nodes": ["n1", "n0", "n1"]}],
    )
    job = outcome.jobs["a"]
    assert job.nodes == ("n1", "n0", "n1")
    assert job.devices == ((0, 1, 2, 3), (0, 1, 2, 3), (4, 5, 6, 7))


def test_named_devices_are_kept_and_the_others_chosen_around_them() -> None:
    outcome = play(
        nodes=[node("n0", gpus=4)],
        queues=[{"name": "q"}],
        jobs=[
            running("any", "q", 2),
            {"name": "named", "queue": "q", "gpus": 1, "state": "running", "nodes": ["n0"], "devices": [[0]]},
            running("share", "q", 0.5),
        ],
    )
    assert {name: job.devices for name, job in outcome.jobs.items()} == {
        "any": ((1, 2),), "named": ((0,),), "share": ((3,),),
    }  # fmt: skip


def test_shares_stand_together_on_one_gpu() -> None:
    outcome = play(
        nodes=[node("n0", gpus=2)],
        queues=[{"name": "q"}],
        jobs=[running("a", "q", 0.3), running("whole", "q", 1), running("b", "q", 0.7)],
    )
    assert outcome.jobs["a"].devices == outcome.jobs["b"].devices == ((1,),)


def test_a_running_job_without_nodes_runs_where_there_is_room() -> None:
    outcome = play(
        nodes=[node("n0"), node("n1")],
        queues=[{"name": "q"}],
        jobs=[running("a", "q", 8), {"name": "b", "queue": "q", "gpus": 8, "state": "running"}],
    )
    assert outcome.jobs["b"].nodes == ("n1",)


def test_a_pending_job_says_why_it_waits() -> None:
    outcome = play(nodes=[node()], queues=[{"name": "q"}], jobs=[running("a", "q", 8), pending("b", "q", 1)])
    assert (outcome.jobs["b"].state, outcome.jobs["b"].nodes) == ("pending", ())
    assert outcome.jobs["b"].reason == "gpu"
    assert "0 free" in outcome.jobs["b"].detail


def test_of_two_jobs_the_one_submitted_first_comes_first() -> None:
    outcome = play(
        nodes=[node()],
        queues=[{"name": "q"}],
        jobs=[pending("late", "q", 8, submitted_s_ago=60), pending("early", "q", 8, submitted_s_ago=120)],
    )
    assert (outcome.jobs["early"].state, outcome.jobs["late"].state) == ("running", "pending")


def test_counted_nodes_and_jobs_are_numbered() -> None:
    outcome = play(nodes=[node("n", gpus=1, count=3)], queues=[{"name": "q"}], jobs=[pending("j", "q", 1, count=4)])
    assert list(outcome.jobs) == ["j-0", "j-1", "j-2", "j-3"]
    assert {job.nodes for job in outcome.jobs.values()} == {("n-0",), ("n-1",), ("n-2",), ()}


def test_nothing_comes_to_nodes_and_gpus_that_are_not_well() -> None:
    outcome = play(
        nodes=[
            node("lost", state="lost"), node("cordoned", state="cordoned"), node("suspect", state="suspect"),
            node("half", bad_gpus=[0, 1, 2, 3]),
        ],
        queues=[{"name": "q"}],
        jobs=[pending("a", "q", 4), pending("b", "q", 1)],
    )  # fmt: skip
    assert (outcome.jobs["a"].nodes, outcome.jobs["a"].devices) == (("half",), ((4, 5, 6, 7),))
    assert outcome.jobs["b"].state == "pending"


def test_what_runs_on_a_cordoned_node_goes_on() -> None:
    outcome = play(nodes=[node("n0", state="cordoned")], queues=[{"name": "q"}], jobs=[running("a", "q", 4)])
    assert (outcome.jobs["a"].state, outcome.jobs["a"].nodes) == ("running", ("n0",))


def test_what_runs_in_a_closed_queue_goes_on() -> None:
    outcome = play(nodes=[node()], queues=[{"name": "q", "closed": True}], jobs=[running("a", "q", 4)])
    assert outcome.jobs["a"].state == "running"


def test_time_stands_still_until_it_is_let_go() -> None:
    parts = {
        "nodes": [node()],
        "queues": [{"name": "q"}],
        "jobs": [running("a", "q", 8, started_s_ago=100, run_s=150), pending("b", "q", 8)],
    }
    assert play(**parts).jobs["b"].state == "pending"
    later = play(**parts, after_s=60)
    assert (later.jobs["a"].state, later.jobs["b"].state) == ("succeeded", "running")


def test_a_run_beyond_its_total_run_time_is_over_at_once() -> None:
    outcome = play(
        nodes=[node()], queues=[{"name": "q"}],
        jobs=[running("a", "q", 8, started_s_ago=7300, total_run_time_s=7200), pending("b", "q", 8)],
    )  # fmt: skip
    assert (outcome.jobs["a"].state, outcome.jobs["b"].state) == ("timed-out", "running")


def test_the_same_scenario_comes_out_the_same() -> None:
    parts = {
        "nodes": [node("n", count=5)],
        "queues": [{"name": "q"}, {"name": "r"}],
        "jobs": [pending("a", "q", 3, count=8), pending("b", "r", 0.3, count=9), running("c", "q", 8, node="n-3")],
    }
    assert play(**parts) == play(**parts)


def test_the_newest_checkpoint_is_as_old_as_the_file_says() -> None:
    """The clock stands: a run that is late with its next checkpoint does not write it before anybody decided."""
    outcome = play(
        nodes=[node("n", count=2)],
        queues=[{"name": "q"}],
        jobs=[
            running("late", "q", 8, "n-0", priority=10, started_s_ago=9000, checkpoint_s_ago=4000,
                    checkpoint_interval_s=1800),
            running("fresh", "q", 8, "n-1", priority=10, started_s_ago=9000, checkpoint_s_ago=100),
            pending("high", "q", 8, priority=90),
        ],
    )  # fmt: skip
    assert (outcome.jobs["fresh"].preempted_for, outcome.jobs["late"].state) == ("high", "running")
