"""How much a queue may hold: Kueue's formulas with worked numbers, and what holds for every tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.quota.formulas import available
from muster.quota.queues import QueueTree
from muster.schemas.facts.queue import QueueSpec

GPU = "gpu_milli"


def tree(*specs: dict[str, object]) -> QueueTree:
    """Queues in this order; amounts in whole GPUs."""
    queues = QueueTree()
    for spec in specs:
        amounts = {
            field: {GPU: 1_000 * int(value)} if isinstance(value, int) else value
            for field, value in spec.items()
            if field in ("quota", "borrowing_limit", "lending_limit")
        }
        queues.set(QueueSpec.model_validate({**spec, **amounts}), changed_at=1)
    return queues


def gpus(amount: int) -> dict[str, int]:
    return {GPU: 1_000 * amount}


def left(queues: QueueTree, queue: str, *, preemptible: bool = True) -> float:
    return queues.available(queue, GPU, preemptible=preemptible) / 1_000


class TestThreeTeams:
    """The tree of docs/concepts/scheduling.md: research 8, platform 4 (2 of them lent), serving borrows at most 6."""

    @pytest.fixture
    def queues(self) -> QueueTree:
        return tree(
            {"name": "org"},
            {"name": "research", "parent": "org", "quota": 8},
            {"name": "platform", "parent": "org", "quota": 4, "lending_limit": 2},
            {"name": "serving", "parent": "org", "quota": 0, "borrowing_limit": 6},
        )

    def test_an_idle_tree_lends_all_but_what_is_never_lent(self, queues: QueueTree) -> None:
        assert [left(queues, name) for name in ("research", "platform", "serving")] == [10, 12, 6]

    def test_what_is_borrowed_is_missing_to_all_but_to_what_is_never_lent(self, queues: QueueTree) -> None:
        queues.hold("serving", gpus(6))
        assert [left(queues, name) for name in ("research", "platform", "serving")] == [4, 6, 0]
        queues.hold("research", gpus(4))
        assert [left(queues, name) for name in ("research", "platform", "serving")] == [0, 2, 0]

    def test_usage_within_what_is_never_lent_does_not_count_above(self, queues: QueueTree) -> None:
        queues.hold("platform", gpus(2))
        assert queues.queues["org"].cells[GPU].usage == 0
        queues.hold("platform", gpus(3))
        assert queues.queues["org"].cells[GPU].usage == 3_000
        assert queues.queues["org"].held_milli == 5_000

    def test_the_bound_that_is_reached_is_named_with_its_numbers(self, queues: QueueTree) -> None:
        queues.hold("serving", gpus(5))
        limit = queues.ceiling("serving", gpus(2), preemptible=True)
        assert limit == ("serving", GPU, 5_000, 6_000, 1_000, "borrowing-limit")
        queues.hold("research", gpus(5))
        full = queues.ceiling("research", gpus(1), preemptible=True)
        assert full == ("org", GPU, 10_000, 10_000, 0, "quota")
        assert queues.ceiling("platform", gpus(2), preemptible=True) is None

    def test_what_could_never_be_held_is_known_though_much_is_held_now(self, queues: QueueTree) -> None:
        queues.hold("research", gpus(10))
        assert queues.never("serving", gpus(6), preemptible=True) is None
        assert queues.never("serving", gpus(7), preemptible=True) == (
            "serving", GPU, 0, 6_000, 6_000, "borrowing-limit",
        )  # fmt: skip
        assert queues.never("research", gpus(11), preemptible=True) == ("org", GPU, 0, 10_000, 10_000, "quota")


def test_trees_lend_nothing_to_each_other() -> None:
    queues = tree({"name": "a", "quota": 2}, {"name": "b", "quota": 3})
    assert left(queues, "a") == 2
    assert queues.ceiling("a", gpus(3), preemptible=True) == ("a", GPU, 0, 2_000, 2_000, "quota")


def test_in_a_tree_that_counts_a_resource_a_queue_without_quota_only_borrows() -> None:
    queues = tree({"name": "org"}, {"name": "a", "parent": "org", "quota": 2}, {"name": "b", "parent": "org"})
    assert left(queues, "b") == 2
    assert not queues.is_within_nominal("b", gpus(1))
    assert queues.is_within_nominal("a", gpus(2))


def test_a_resource_that_no_queue_of_the_tree_counts_is_bounded_by_limits_alone() -> None:
    queues = tree({"name": "org", "borrowing_limit": 3}, {"name": "a", "parent": "org"})
    assert left(queues, "a") == 3
    assert queues.ceiling("a", {"cpu_milli": 10**9}, preemptible=True) is None
    queues.hold("a", gpus(3))
    assert queues.ceiling("a", gpus(1), preemptible=False) == ("org", GPU, 3_000, 3_000, 0, "borrowing-limit")
    assert not queues.is_within_nominal("a", gpus(0)), "nothing is nominal there"
    assert queues.is_borrowing("a", [GPU]), "all that is held is borrowed from the cluster"


def test_a_tree_declares_a_resource_as_long_as_one_of_its_queues_names_it() -> None:
    queues = tree(
        {"name": "org"}, {"name": "a", "parent": "org", "quota": 2}, {"name": "b", "parent": "org", "quota": 1}
    )
    for name, declares in (("a", True), ("b", False)):
        queues.set(QueueSpec(name=name, parent="org"), changed_at=2, at=2)
        assert queues.declares("org", GPU) is declares
    assert queues.ceiling("a", gpus(100), preemptible=False) is None


def test_the_first_form_of_quota_and_limit_is_read() -> None:
    queues = tree(
        {"name": "org"},
        {"name": "a", "parent": "org", "gpu_milli_quota": 2_000, "gpu_milli_limit": 5_000},
        {"name": "b", "parent": "org", "quota": 10},
    )
    assert (left(queues, "a"), left(queues, "b")) == (5, 12)


def test_a_limit_above_counts_for_all_below_it() -> None:
    queues = tree(
        {"name": "org"},
        {"name": "team", "parent": "org", "quota": 2, "borrowing_limit": 1},
        {"name": "rest", "parent": "org", "quota": 9},
        {"name": "ada", "parent": "team"},
        {"name": "bob", "parent": "team"},
    )
    queues.hold("ada", gpus(2))
    assert (left(queues, "ada"), left(queues, "bob")) == (1, 1)
    assert queues.ceiling("bob", gpus(2), preemptible=True) == ("team", GPU, 2_000, 3_000, 1_000, "borrowing-limit")


def test_less_than_nothing_is_left_after_quota_was_taken_away() -> None:
    queues = tree({"name": "org"}, {"name": "a", "parent": "org", "quota": 8}, {"name": "b", "parent": "org"})
    queues.hold("a", gpus(3))
    queues.hold("b", gpus(4))
    queues.set(QueueSpec(name="a", parent="org", quota=gpus(2)), changed_at=2, at=2)
    assert (left(queues, "a"), left(queues, "b")) == (-5, -5)
    assert queues.ceiling("a", gpus(1), preemptible=True).available == -5_000
    queues.hold("b", gpus(4), sign=-1)
    assert left(queues, "a") == -1


def test_a_queue_that_moves_takes_quota_and_use_along() -> None:
    queues = tree({"name": "one", "quota": 1}, {"name": "two", "quota": 2}, {"name": "a", "parent": "one", "quota": 4})
    queues.hold("a", gpus(3))
    assert (left(queues, "one"), left(queues, "two")) == (2, 2)
    queues.set(QueueSpec(name="a", parent="two", quota=gpus(4)), changed_at=2, at=2)
    assert (left(queues, "one"), left(queues, "two"), left(queues, "a")) == (1, 3, 3)
    assert (queues.queues["one"].held_milli, queues.queues["two"].held_milli) == (0, 3_000)


class TestJobsThatMayNotBePreempted:
    """They live on nominal quota, so that it can be reclaimed: their queue's own, else that of the queue above."""

    def test_they_do_not_borrow(self) -> None:
        queues = tree(
            {"name": "org"}, {"name": "a", "parent": "org", "quota": 2}, {"name": "b", "parent": "org", "quota": 8}
        )
        assert left(queues, "a", preemptible=False) == 2
        queues.hold("a", gpus(2), preemptible=False)
        stopped = queues.ceiling("a", gpus(1), preemptible=False)
        assert stopped == ("a", GPU, 2_000, 2_000, 0, "non-preemptible")
        assert queues.ceiling("a", gpus(1), preemptible=True) is None
        assert queues.never("a", gpus(3), preemptible=False).reason == "non-preemptible"

    def test_a_queue_that_names_no_quota_lives_on_that_of_the_one_above(self) -> None:
        queues = tree(
            {"name": "team", "quota": 4},
            {"name": "ada", "parent": "team"},
            {"name": "bob", "parent": "team", "quota": 2},
        )
        queues.hold("ada", gpus(3), preemptible=False)
        assert [left(queues, name, preemptible=False) for name in ("team", "ada", "bob")] == [1, 1, 2]

    def test_jobs_above_leave_the_quota_of_those_below_alone(self) -> None:
        queues = tree({"name": "team", "quota": 0}, {"name": "ada", "parent": "team", "quota": 5})
        assert left(queues, "team", preemptible=False) == 0

    def test_what_may_be_preempted_does_not_stand_in_their_way_but_the_quota_does(self) -> None:
        queues = tree(
            {"name": "org"}, {"name": "a", "parent": "org", "quota": 2}, {"name": "b", "parent": "org", "quota": 2}
        )
        queues.hold("b", gpus(4))
        assert left(queues, "a", preemptible=False) == 0
        assert queues.ceiling("a", gpus(1), preemptible=False).reason == "quota"
        assert queues.is_within_nominal("a", gpus(2))
        assert queues.is_borrowing("b", [GPU])


def test_paths_and_sides() -> None:
    queues = tree(
        {"name": "org"}, {"name": "a", "parent": "org"}, {"name": "b", "parent": "org"},
        {"name": "a1", "parent": "a"}, {"name": "a2", "parent": "a"}, {"name": "else"},
    )  # fmt: skip
    assert queues.path("a1") == ("a1", "a", "org")
    assert queues.sides("a1", "a2") == ("a1", "a2")
    assert queues.sides("a1", "b") == ("a", "b")
    assert queues.sides("a1", "else") == ("org", "else")
    assert queues.sides("a1", "a1") is queues.sides("a1", "org") is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"name": "new", "quota": {GPU: 1}, "lending_limit": {GPU: 2}}, "lending_limit"),
        ({"name": "new", "parent": "nowhere"}, "parent"),
        ({"name": "org", "parent": "a1"}, "parent"),
        ({"name": "a", "parent": "a"}, "parent"),
        ({"name": "new", "gpu_milli_quota": 2, "gpu_milli_limit": 1}, "gpu_milli_limit"),
        ({"name": "new", "run_time_default_s": 9, "run_time_max_s": 8}, "run_time_default_s"),
        ({"name": "new", "min_slice_default_s": 9, "min_slice_max_s": 8}, "min_slice_default_s"),
        ({"name": "n" * 41, "user_template": {}}, "user_template"),
        ({"name": "new", "user_template": {"lending_limit": {GPU: 1}}}, "user_template.lending_limit"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field(spec: dict[str, object], field: str) -> None:
    queues = tree({"name": "org"}, {"name": "a", "parent": "org"}, {"name": "a1", "parent": "a"})
    refusal = queues.check(QueueSpec.model_validate(spec))
    assert refusal is not None
    assert refusal.field == field
    assert queues.check(QueueSpec(name="a1", parent="org", quota=gpus(1), lending_limit=gpus(1))) is None


def test_a_department_may_limit_what_its_teams_lend_to_others() -> None:
    queues = tree(
        {"name": "org"}, {"name": "department", "parent": "org", "lending_limit": 2},
        {"name": "team", "parent": "department", "quota": 8}, {"name": "other", "parent": "org", "quota": 1},
    )  # fmt: skip
    assert queues.check(QueueSpec(name="department", parent="org", lending_limit={GPU: 2})) is None
    assert queues.available("other", GPU) == 1_000 + 2_000


def test_a_tree_has_only_so_many_levels() -> None:
    queues = tree({"name": "q0"}, *({"name": f"q{n}", "parent": f"q{n - 1}"} for n in range(1, 16)))
    assert queues.check(QueueSpec(name="deep", parent="q15")).field == "parent"
    assert queues.check(QueueSpec(name="q0", parent=None)) is None


# --- for every tree ----------------------------------------------------------------------------------------------

NAMES = "abcdefg"
RESOURCES = (GPU, "cpu_milli")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6), max_size=2)


@st.composite
def specs(draw: st.DrawFn) -> list[QueueSpec]:
    """Queues of up to three trees; each stands below one before it, or below none."""
    found: list[QueueSpec] = []
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        quota = draw(AMOUNTS)
        lending = {r: min(amount, quota[r]) for r, amount in draw(AMOUNTS).items() if r in quota}
        found.append(
            QueueSpec(
                name=name,
                parent=draw(st.sampled_from([None, *(one.name for one in found)])),
                quota=quota,
                borrowing_limit=draw(AMOUNTS),
                lending_limit=lending,
                weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
            )
        )
    return found


HOLDS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 5)), st.booleans()),
    max_size=15,
)


def build(found: list[QueueSpec]) -> QueueTree:
    queues = QueueTree()
    for spec in found:
        queues.set(spec, changed_at=1, at=1)
    queues.set_capacity({GPU: 20, "cpu_milli": 20})
    return queues


def sums(queues: QueueTree) -> object:
    """Every number of every cell that is not all zero."""
    return {
        cell.key: (cell.subtree, cell.local, cell.own, cell.own_fixed, cell.held, cell.usage, cell.fixed)
        for record in queues.queues.values()
        for cell in record.cells.values()
        if (cell.subtree, cell.own, cell.held, cell.usage, cell.fixed) != (0, 0, 0, 0, 0)
    }


def admit(queues: QueueTree, holds: list[tuple[str, dict[str, int], bool]]) -> list[tuple[str, dict[str, int], bool]]:
    """Hold what is admitted, as the cycle does."""
    admitted = []
    for queue, amounts, preemptible in holds:
        if queue in queues.queues and queues.ceiling(queue, amounts, preemptible=preemptible) is None:
            queues.hold(queue, amounts, preemptible=preemptible, at=2)
            admitted.append((queue, amounts, preemptible))
    return admitted


@given(specs(), HOLDS)
def test_what_is_admitted_breaks_no_bound(
    found: list[QueueSpec], holds: list[tuple[str, dict[str, int], bool]]
) -> None:
    queues = build(found)
    admit(queues, holds)
    for record in queues.queues.values():
        for resource, cell in record.cells.items():
            if resource in record.root.declared:
                assert cell.usage <= cell.subtree + cell.borrowing
                assert not cell.named or cell.fixed <= cell.nominal, "nominal quota can always be reclaimed"
            else:
                assert cell.held <= cell.borrowing
        root = record.root
        for resource in root.declared:
            assert root.cells[resource].usage <= root.cells[resource].subtree
            assert queues.available(root.name, resource) >= 0


@given(specs(), HOLDS)
def test_a_ceiling_says_exactly_what_is_not_available(
    found: list[QueueSpec], holds: list[tuple[str, dict[str, int], bool]]
) -> None:
    queues = build(found)
    for queue, amounts, preemptible in holds:
        if queue not in queues.queues:
            continue
        ceiling = queues.ceiling(queue, amounts, preemptible=preemptible)
        fits = all(
            amount <= queues.available(queue, resource, preemptible=preemptible)
            for resource, amount in amounts.items()
            if amount
        )
        assert (ceiling is None) == fits
        if ceiling is not None:
            assert ceiling.available < amounts[ceiling.resource]
        if queues.never(queue, amounts, preemptible=preemptible) is not None:
            assert ceiling is not None, "what can never be held cannot be held now"
        queues.hold(queue, amounts, preemptible=preemptible)  # even if it was refused: usage may be over every bound


@given(specs(), HOLDS, st.randoms(use_true_random=False))
def test_sums_kept_up_to_date_equal_sums_made_anew(found: list[QueueSpec], holds: list, rng: object) -> None:
    queues = build(found[:1])
    for spec in found[1:]:
        queues.set(spec.model_copy(update={"quota": {}, "lending_limit": {}}), changed_at=1, at=1)
    for queue, amounts, preemptible in holds:
        queues.hold(queue, amounts, preemptible=preemptible, at=2)
        if rng.random() < 0.5:
            queues.set(rng.choice(found), changed_at=3, at=3)
    for spec in found:
        queues.set(spec, changed_at=4, at=4)
    fresh = QueueTree()
    for queue, amounts, preemptible in holds:
        fresh.hold(queue, amounts, preemptible=preemptible)
    for spec in sorted(found, key=lambda spec: spec.name, reverse=True):
        fresh.set(spec, changed_at=4)
    assert sums(queues) == sums(fresh)
    for spec in found:
        record, other = queues.queues[spec.name], fresh.queues[spec.name]
        assert record.root.declared == other.root.declared
        assert record.bounded == other.bounded
        assert record.policy == other.policy


@given(specs(), HOLDS, HOLDS)
def test_to_hold_and_to_undo_it_changes_nothing(found: list[QueueSpec], holds: list, tried: list) -> None:
    queues = build(found)
    admit(queues, holds)
    before = sums(queues)
    queues.relieved.clear()
    known = [(queue, amounts, preemptible) for queue, amounts, preemptible in tried if queue in queues.queues]
    for queue, amounts, preemptible in known:
        queues.propose(queue, amounts, preemptible=preemptible)
    queues.withdraw_proposals()
    assert sums(queues) == before
    assert not queues.relieved


@given(specs(), HOLDS)
def test_who_borrows_nothing_has_no_share_and_only_they(found: list[QueueSpec], holds: list) -> None:
    queues = build(found)
    for queue, amounts, preemptible in holds:
        if queue in queues.queues:
            queues.hold(queue, amounts, preemptible=preemptible)
    for name in queues.queues:
        counted = [resource for resource in RESOURCES if queues.declares(name, resource)]
        compared = counted if queues.declares(name, GPU) else RESOURCES
        assert (queues.share(name) > 0) == queues.is_borrowing(name, compared)


def test_who_stays_within_its_gpus_borrows_nothing_whatever_cpu_that_takes() -> None:
    queues = build([QueueSpec(name="org"), QueueSpec(name="a", parent="org", quota={GPU: 4_000})])
    queues.set_capacity({GPU: 8_000, "gpu_milli:H100": 8_000, "cpu_milli": 64_000})
    queues.hold("a", {GPU: 4_000, "gpu_milli:H100": 4_000, "cpu_milli": 60_000})
    assert queues.share("a") == 0


@settings(max_examples=200)
@given(specs(), HOLDS)
def test_with_less_held_anywhere_there_is_more_only_where_it_is_said(found: list[QueueSpec], holds: list) -> None:
    """Who waits below a bound waits for the queues up to that bound; nothing else can help."""
    queues = build(found)
    held = [(q, amounts, preemptible) for q, amounts, preemptible in holds if q in queues.queues]
    for queue, amounts, preemptible in held:
        queues.hold(queue, amounts, preemptible=preemptible, at=2)
    for queue, amounts, preemptible in held:
        before = {
            (name, resource, kind): (
                queues.available(name, resource, preemptible=kind),
                queues.waits_on(name, resource),
            )
            for name in queues.queues
            for resource in RESOURCES
            for kind in (True, False)
        }
        queues.relieved.clear()
        queues.hold(queue, amounts, preemptible=preemptible, sign=-1, at=3)
        for (name, resource, kind), (left_before, waits_on) in before.items():
            if queues.available(name, resource, preemptible=kind) > left_before:
                assert any((above, resource) in queues.relieved for above in waits_on)


def test_available_of_one_root() -> None:
    record = tree({"name": "a", "quota": 3}).queues["a"]
    assert available(record.cells_up(GPU), is_declared=True) == 3_000
