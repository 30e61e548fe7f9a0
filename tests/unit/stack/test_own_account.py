"""What the account of one credential imports, without a server."""

import pytest

from kit.servers import CLUSTER, DECLARATIONS
from muster.bus.access import AccountName, bus_users
from muster.bus.own_account import SERVED, SERVED_OFTEN, answered, asked, heard, is_within, local_rights, renamed, told

USERS = {
    user.name: user
    for user in bus_users(DECLARATIONS, clusters=(CLUSTER,), webhooks=("pager",))
    if user.account is AccountName.OWN
}


@pytest.mark.parametrize("name", USERS)
def test_all_that_a_credential_may_publish_is_imported_exported_or_an_answer(name: str) -> None:
    rights = USERS[name].rights
    passing = (*asked(rights), *told(rights), "_R_.>", "_INBOX.>")
    for subject in rights.publish:
        assert any(is_within(subject, pattern) for pattern in passing), subject


@pytest.mark.parametrize("name", USERS)
def test_imports_do_not_overlap_and_are_served(name: str) -> None:
    """The broker would refuse the whole account."""
    wanted = asked(USERS[name].rights)
    for one in wanted:
        assert not any(one != other and is_within(one, other) for other in wanted)
        assert sum(is_within(one, pattern) for pattern in (*SERVED, *SERVED_OFTEN)) == 1, one


@pytest.mark.parametrize("name", USERS)
def test_only_requests_of_jetstream_are_imported_without_a_wildcard(name: str) -> None:
    """An answer on a subject that is imported as it stands would go on through that import."""
    literal = [one for one in asked(USERS[name].rights) if "*" not in one and not one.endswith(">")]
    assert all(one.startswith("$JS.API.") for one in literal), literal


def test_nobody_who_writes_facts_has_a_consumer_where_they_stand() -> None:
    for name, user in USERS.items():
        writes = [subject for subject in user.rights.publish if subject.startswith("muster.fed.")]
        reads = [subject for subject in user.rights.publish if subject.startswith("$JS.API.CONSUMER.MSG.NEXT.FED.")]
        assert not (writes and reads) or name == "admin-tools", name


def test_rights_are_those_on_the_subjects_of_the_account() -> None:
    rights = local_rights(USERS["reader"].rights)
    assert "streams.$JS.API.STREAM.INFO.FED" in rights.publish
    assert not [subject for subject in (*rights.publish, *rights.withheld) if subject.startswith("$JS.API.")]


def test_who_listens_and_who_answers_does_so_across_accounts() -> None:
    assert f"telemetry.{CLUSTER}.*" in heard(USERS["projector"].rights)
    assert f"telemetry.{CLUSTER}.*" in told(USERS["telemetry"].rights)
    assert f"query.{CLUSTER}.scheduler.why" in answered(USERS["scheduler"].rights)
    assert not heard(USERS["scheduler"].rights)


def test_wildcards_of_a_local_subject_are_counted() -> None:
    assert renamed("streams.a.*.b.*.>") == "streams.a.$1.b.$2.>"


@pytest.mark.parametrize(
    ("subject", "pattern", "within"),
    [
        ("a.b", "a.b", True), ("a.*", "a.*", True), ("a.b", "a.*", True), ("a.b.c", "a.>", True), ("a.>", "a.>", True),
        ("a.*", "a.b", False), ("a", "a.>", False), ("a.b", "a.b.c", False), ("a.>", "a.*", False),
    ],
)  # fmt: skip
def test_a_subject_is_within_a_pattern_if_all_that_it_matches_is(subject: str, pattern: str, within: bool) -> None:
    assert is_within(subject, pattern) is within
