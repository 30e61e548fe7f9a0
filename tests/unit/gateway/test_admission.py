"""Which teams a queue takes jobs from, and up to which priority."""

from muster.quota.admission import Admission, admissions
from muster.schemas.facts.queue import QueueSpec, QueueTemplate
from muster.schemas.job import PRIORITY_MAX


def of(name: str, *specs: QueueSpec) -> Admission:
    return admissions({spec.name: spec for spec in specs})[name]


def test_a_queue_takes_jobs_of_the_team_of_its_name_and_of_those_that_it_and_the_queues_above_name() -> None:
    tree = QueueSpec(name="train", parent="lab", teams=("ml",)), QueueSpec(name="lab", teams=("staff",))
    assert of("train", *tree).teams == {"train", "ml", "lab", "staff"}
    assert of("lab", *tree).teams == {"lab", "staff"}


def test_a_star_is_every_team_also_for_the_queues_below() -> None:
    tree = QueueSpec(name="default", teams=("*",)), QueueSpec(name="night", parent="default"), QueueSpec(name="lab")
    assert of("default", *tree).takes_from("anybody", "ann")
    assert of("night", *tree).takes_from("anybody", "ann")
    assert not of("lab", *tree).takes_from("anybody", "ann")


def test_the_nearest_maximum_of_the_priority_holds() -> None:
    org, lab = QueueSpec(name="org", priority_max=100), QueueSpec(name="lab", parent="org", priority_max=200)
    assert of("org", org).priority_max == 100
    assert of("lab", org, lab).priority_max == 200
    assert of("x", org, QueueSpec(name="x", parent="org")).priority_max == 100
    assert of("x", QueueSpec(name="x")).priority_max == PRIORITY_MAX


def test_a_queue_of_a_user_takes_jobs_of_that_user_alone() -> None:
    tree = (
        QueueSpec(name="lab", user_template=QueueTemplate()),
        QueueSpec(name="lab-ann", parent="lab"),
        QueueSpec(name="ann-night", parent="lab-ann"),
    )
    for queue in ("lab-ann", "ann-night"):
        assert of(queue, *tree).takes_from("lab", "ann")
        assert not of(queue, *tree).takes_from("lab", "bob")
    assert of("lab", *tree).takes_from("lab", "bob")


def test_a_queue_below_a_template_takes_jobs_of_the_teams_that_it_names_itself() -> None:
    tree = QueueSpec(name="lab", user_template=QueueTemplate()), QueueSpec(name="vision", parent="lab", teams=("lab",))
    assert of("vision", *tree).takes_from("vision", "ann")
    assert of("vision", *tree).takes_from("lab", "ann")


def test_queues_that_stand_above_themselves_have_rules() -> None:
    tree = QueueSpec(name="a", parent="b", teams=("x",)), QueueSpec(name="b", parent="a")
    assert of("a", *tree).takes_from("x", "ann")
    assert not of("b", *tree).takes_from("y", "ann")
