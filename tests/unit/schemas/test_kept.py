"""Models that services keep: what they were given is told, and takes memory once for all models alike."""

from muster.schemas.job import Slot


def test_models_that_were_given_the_same_fields_share_the_set_of_them() -> None:
    one, other = (Slot.model_validate_json(f'{{"group":0,"replica":{number},"node":"n"}}') for number in (1, 2))
    assert one.model_fields_set is other.model_fields_set
    assert one.model_fields_set == {"group", "replica", "node"}


def test_models_that_were_given_other_fields_say_so() -> None:
    plain, given = Slot(group=0, replica=0, node="n"), Slot(group=0, replica=0, node="n", gpus=0)
    assert given.model_fields_set - plain.model_fields_set == {"gpus"}


def test_a_changed_copy_leaves_what_the_others_were_given() -> None:
    slot = Slot(group=0, replica=0, node="n")
    changed = slot.model_copy(update={"gpus": 2})
    assert "gpus" in changed.model_fields_set
    assert "gpus" not in slot.model_fields_set
