"""Queue files and options, and how the tree is shown."""

import json
from pathlib import Path

import pytest

from muster.cli.errors import CliError, ExitCode
from muster.cli.main import run
from muster.cli.queue_tree import amended, amounts, load_queues, queue_rows, roots, told
from muster.schemas.facts.queue import QueueSpec, Reclaim
from muster.schemas.views import QueueView
from unit.cli.fake_muster import FakeMuster

TREE = """
name: blue
parent: org
quota: {gpu: 8, "gpu:H100": 0.5, cpu: 64, memory_gib: 512}
borrowing_limit: {gpu: 4}
lending_limit: {gpu: 2}
user_template: {quota: {gpu: 1}}
preemption: {reclaim: never, fair_share: []}
---
name: org
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "queues.yaml"
    path.write_text(text)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(CliError) as error:
        load_queues(path)
    assert error.value.code is ExitCode.USAGE
    assert str(path) in str(error.value)
    return str(error.value)


def test_a_tree_is_written_in_human_units_and_read_parents_first(tmp_path: Path) -> None:
    org, blue = load_queues(written(tmp_path, TREE))
    assert (org.name, blue.name) == ("org", "blue")
    assert blue.quota == {"gpu_milli": 8000, "gpu_milli:H100": 500, "cpu_milli": 64_000, "memory_mib": 524_288}
    assert (blue.borrowing_limit, blue.lending_limit) == ({"gpu_milli": 4000}, {"gpu_milli": 2000})
    assert blue.user_template is not None
    assert blue.user_template.quota == {"gpu_milli": 1000}
    assert (blue.preemption.reclaim, blue.preemption.fair_share) == (Reclaim.NEVER, ())


def test_the_first_form_of_a_quota_is_still_read(tmp_path: Path) -> None:
    (queue,) = load_queues(written(tmp_path, "name: research\ngpu_milli_quota: 64000\n"))
    assert queue.gpu_milli_quota == 64_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nquota: {gpus: 1}", "quota.gpus: unknown; write gpu"),
        ("name: a\nquota: {gpu: 0.0001}", "quota.gpu: 0.0001 is finer"),
        ("name: a\nborrowing_limit: {cpu: -1}", "borrowing_limit.cpu: -1 is negative"),
        (
            "name: a\nuser_template: {quota: {memory_gib: much}}",
            "user_template.quota.memory_gib: 'much' is not a number",
        ),
        ("name: a\nquota: 16", "quota: "),
        ("name: a\norder: random", "order: "),
        ("name: a\nquota: {gpu: 1}\nquota: {gpu: 2}", "'quota' is written twice"),
        ("name: a\n---\nname: a", "queue a is defined twice"),
        ("name: a\nparent: b\n---\nname: b\nparent: a", "a would be its own ancestor: a -> b -> a"),
        ("name: a\nparent: a", "a would be its own ancestor: a -> a"),
    ],
)
def test_what_is_wrong_with_a_queue_file_is_told_with_its_field(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(written(tmp_path, text))


@pytest.mark.parametrize(("answers", "told"), [(True, "set"), (False, "requested; the scheduler has not answered yet")])
def test_queues_set_asks_for_the_whole_file_and_says_what_came_of_it(
    muster: FakeMuster, tmp_path: Path, capsys: pytest.CaptureFixture[str], answers: bool, told: str
) -> None:
    muster.answers = answers
    assert run(["queues", "set", "-f", str(written(tmp_path, TREE))]) == 0
    assert [spec.name for spec in muster.asked] == ["org", "blue"]
    assert capsys.readouterr().out.splitlines() == [f"org: {told}", f"blue: {told}"]


def test_a_file_in_which_one_queue_is_refused_changes_none(
    muster: FakeMuster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.refuses = "blue"
    assert run(["queues", "set", str(written(tmp_path, TREE))]) == ExitCode.REFUSED
    assert "queues.1.parent: no queue" in capsys.readouterr().err
    assert muster.asked == []


def test_options_make_a_queue(muster: FakeMuster) -> None:
    options = ["--quota", "8", "--quota", "gpu:H100=4,cpu=2.5", "--borrowing-limit", "gpu=2", "--parent", "org"]
    knobs = ["--weight", "2", "--order", "fifo", "--reclaim", "never", "--fair-share", "final-share", "--closed"]
    assert run(["queues", "set", "--name", "q", *options, *knobs]) == 0
    (spec,) = muster.asked
    assert spec.quota == {"gpu_milli": 8000, "gpu_milli:H100": 4000, "cpu_milli": 2500}
    assert (spec.borrowing_limit, spec.parent, spec.weight) == ({"gpu_milli": 2000}, "org", 2.0)
    assert (spec.order, spec.preemption.reclaim, spec.preemption.fair_share) == ("fifo", "never", ("final-share",))
    assert spec.closed


def test_options_change_only_what_they_name(muster: FakeMuster) -> None:
    before = QueueSpec(name="q", quota={"gpu_milli": 8000}, weight=3.0, starving_after_s=60)
    muster.known = [QueueView(name="q", cluster="c", spec=before)]
    assert run(["queues", "set", "--name", "q", "--borrowing-limit", "1", "--over-slice", "never"]) == 0
    assert run(["queues", "set", "--name", "q", "--quota", "none", "--open"]) == 0
    first, second = muster.asked
    assert (first.quota, first.weight, first.starving_after_s) == (before.quota, 3.0, 60)
    assert (first.borrowing_limit, first.preemption.over_slice) == ({"gpu_milli": 1000}, "never")
    assert (second.quota, second.closed) == ({}, False)


def test_options_say_who_may_submit_and_how_urgently(muster: FakeMuster) -> None:
    muster.known = [QueueView(name="q", cluster="c", spec=QueueSpec(name="q", teams=("old",)))]
    assert run(["queues", "set", "--name", "q", "--team", "blue", "--team", "red", "--priority-max", "200"]) == 0
    assert run(["queues", "set", "--name", "q", "--team", "none"]) == 0
    first, second = muster.asked
    assert (first.teams, first.priority_max) == (("blue", "red"), 200)
    assert second.teams == ()


def test_the_wide_table_shows_who_may_submit_and_the_maxima_also_where_they_are_inherited() -> None:
    org = QueueSpec(name="org", teams=("staff",), priority_max=200, min_slice_max_s=3600.0)
    queues = [
        QueueView(name=spec.name, cluster="c", parent=spec.parent, spec=spec)
        for spec in (org, QueueSpec(name="blue", parent="org"))
    ]
    assert [row[12:15] for row in queue_rows(queues, wide=True)] == [
        ("org,staff", "200", "1:00:00"),
        ("blue,org,staff", "200", "1:00:00"),
    ]


def test_a_queue_whose_settings_nobody_tells_is_not_changed_blindly(muster: FakeMuster) -> None:
    muster.known = [QueueView(name="q", cluster="c")]
    assert run(["queues", "set", "--name", "q", "--weight", "2"]) == ExitCode.REFUSED
    assert muster.asked == []


def test_a_new_quota_replaces_its_first_form() -> None:
    before = QueueSpec(name="q", gpu_milli_quota=1000, gpu_milli_limit=2000)
    after = amended("q", before, {"quota": {"gpu": 4}})
    assert (after.gpu_milli_quota, after.gpu_milli_limit, after.quota) == (None, None, {"gpu_milli": 4000})


@pytest.mark.parametrize("option", ["quota", "borrowing_limit"])
def test_a_wrong_amount_names_its_option(option: str) -> None:
    with pytest.raises(CliError, match=f"--{option.replace('_', '-')}.gpus: unknown"):
        amended("q", None, {option: {"gpus": 1}})


@pytest.mark.parametrize("texts", [["gpu=1", "gpu=2"], ["1,gpu=2"], ["gpu=many"], ["gpu="]])
def test_amounts_that_make_no_sense_are_refused(texts: list[str]) -> None:
    with pytest.raises(CliError, match="--quota: "):
        amounts("--quota", texts)


def a_tree() -> list[QueueView]:
    return [
        QueueView(name="serving", cluster="c", parent="org", borrowing_limit={"gpu_milli": 6000}, jobs_queued=2),
        QueueView(
            name="research", cluster="c", parent="org", quota={"gpu_milli": 8000}, gpu_milli_held=1500, jobs_running=3,
            held={"gpu_milli": 1500, "cpu_milli": 1000}, share=0.125,
        ),
        QueueView(name="org", cluster="c", gpu_milli_held=1500, held={"gpu_milli": 1500}),
        QueueView(name="old", cluster="c", gpu_milli_quota=1000, gpu_milli_limit=3000, closed=True),
    ]  # fmt: skip


def test_the_tree_is_shown_with_what_each_is_promised_borrows_holds_and_who_waits() -> None:
    assert list(queue_rows(a_tree())) == [
        ("old", "1", "2", "-", "0", "0.00", "0", "0", "closed"),
        ("org", "-", "-", "-", "1.5", "0.00", "3", "2", "open"),
        ("  research", "8", "-", "-", "1.5", "0.12", "3", "0", "open"),
        ("  serving", "-", "6", "-", "0", "0.00", "0", "2", "open"),
    ]


def test_only_the_wide_table_shows_what_is_held_of_resources_that_nobody_is_promised() -> None:
    assert [row[4] for row in queue_rows(a_tree(), wide=True)] == ["0", "1.5", "1.5 cpu=1", "0"]


def test_what_the_top_holds_is_all_that_is_held() -> None:
    assert [queue.name for queue in roots(a_tree())] == ["old", "org"]


def test_amounts_are_shown_in_the_words_they_are_written_in() -> None:
    assert told({"memory_mib": 512, "gpu_milli:H100": 4000, "gpu_milli": 8000}) == "8 gpu:H100=4 memory_gib=0.5"


def test_queues_without_more_shows_the_tree_with_shares(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.known = a_tree()
    assert run(["queues"]) == 0
    assert "  research" in capsys.readouterr().out
    assert muster.shares_asked
    assert run(["queues", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert run(["queues", "list"]) == 0
