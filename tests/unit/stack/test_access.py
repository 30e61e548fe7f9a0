"""Rights as they are derived, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.servers import CLUSTER, DECLARATIONS
from muster.bus.access import SOURCED_WRITER, AccountName, bus_users, inbox_prefix, service_rights, view_rights
from muster.bus.declaration import Declaration
from muster.bus.jwt import (
    PREFIX_ACCOUNT,
    ViewSigner,
    claims_of,
    creds_file,
    key_of_seed,
    mint_view_user,
    new_key,
    user_jwt,
)
from muster.schemas.registry import SERVICES, TABLE, StreamRole

USERS = {user.name: user for user in bus_users(DECLARATIONS, clusters=(CLUSTER,))}
declarations = st.builds(
    Declaration,
    service=st.sampled_from([service for service in SERVICES if service != "operator"]),
    folds=st.sets(st.sampled_from(list(StreamRole))).map(tuple),
    publishes=st.sampled_from([(), ("telemetry.{cluster}.*",)]),
    buckets=st.sampled_from([(), ("tokens",)]),
    withholds=st.booleans(),
)


def matches(pattern: str, subject: str) -> bool:
    """Whether a NATS subject is within a pattern."""
    wanted, given_ = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(given_) > index
        if index >= len(given_) or token not in ("*", given_[index]):
            return False
    return len(wanted) == len(given_)


def may_publish(user: str, subject: str) -> bool:
    return any(matches(pattern, subject) for pattern in USERS[user].rights.publish)


def test_nobody_may_administer_streams_by_wildcard() -> None:
    for user in USERS.values():
        for subject in user.rights.publish:
            assert subject not in (">", "$JS.>", "$JS.API.>")
            assert not subject.startswith("$JS.API.STREAM") or not subject.endswith((">", "*")), (user.name, subject)
        assert not may_publish(user.name, "$JS.API.STREAM.DELETE.FED")


def test_nobody_may_have_stored_headers_answered_to_a_subject_of_their_choice() -> None:
    for name in USERS:
        assert not may_publish(name, "$JS.API.DIRECT.GET.KV_leases.$KV.leases.x")
        assert not may_publish(name, "$JS.API.DIRECT.GET.OBJ_checkpoints")


def test_only_who_trims_may_purge_a_log() -> None:
    purgers = {name for name in USERS if may_publish(name, "$JS.API.STREAM.PURGE.FED")}
    assert purgers == {"admin-tools"}


@given(declarations)
def test_a_service_writes_its_own_facts_alone(declaration: Declaration) -> None:
    rights = service_rights(declaration, clusters=("a", "b"))
    facts = [subject for subject in rights.publish if subject.startswith("muster.")]
    assert all(subject.split(".")[2] == declaration.service for subject in facts)
    assert not any(subject.startswith("fedup.") for subject in facts)


def test_every_fact_of_the_table_can_be_written_by_its_writer_where_it_lives() -> None:
    for row in TABLE:
        if row.writer not in USERS or row.stream is StreamRole.FED_UP or row.name == "fence":
            continue
        scope, address = ("fed", "_.") if row.stream is StreamRole.FED else (CLUSTER, "")
        subject = f"muster.{scope}.{row.writer}.{address}{row.kind}.X.{row.name}"
        is_sourced = row.stream is StreamRole.LOG and row.writer == SOURCED_WRITER
        assert may_publish(row.writer, subject) is not is_sourced, subject


def test_a_fence_is_its_services_own_literal_subject() -> None:
    assert f"muster.{CLUSTER}.scheduler.fence" in USERS["scheduler"].rights.publish
    assert not may_publish("scheduler", f"muster.{CLUSTER}.agent.fence")
    assert not may_publish("gateway", "muster.fed.gateway.fence")


def test_withholding_is_declared() -> None:
    subject = f"muster.{CLUSTER}.health.node.n1.withhold-requested"
    for withholds in (True, False):
        health = Declaration("health", folds=(StreamRole.LOG,), withholds=withholds)
        rights = service_rights(health, clusters=(CLUSTER,))
        assert any(matches(pattern, subject) for pattern in rights.publish) is withholds


@pytest.mark.parametrize("service", ["scaler", "composer"])
def test_who_moves_devices_asks_to_withhold_them_and_grants_nothing(service: str) -> None:
    for kind in ("node", "device"):
        assert may_publish(service, f"muster.{CLUSTER}.{service}.{kind}.X.withhold-requested")
        for name in ("withheld", "released"):
            assert not may_publish(service, f"muster.{CLUSTER}.scheduler.{kind}.X.{name}")
            assert not may_publish(service, f"muster.{CLUSTER}.{service}.{kind}.X.{name}")


def test_who_chooses_devices_cannot_say_that_they_are_attached() -> None:
    assert may_publish("composer", f"muster.{CLUSTER}.composer.attachment.X.attached")
    assert not may_publish("scaler", f"muster.{CLUSTER}.composer.attachment.X.attached")
    assert not may_publish("composer", f"muster.{CLUSTER}.scaler.scale.s000001.gpu-attach-chosen")


def test_only_responders_may_reply() -> None:
    repliers = {name for name in USERS if may_publish(name, "_R_.abc")}
    assert repliers == {"scheduler", "scaler", "composer", "guard", "health", "upgrader"}


def test_every_user_receives_in_its_own_inbox_alone() -> None:
    for name, user in USERS.items():
        inboxes = [subject for subject in user.rights.subscribe if subject.startswith("_INBOX")]
        assert inboxes == [f"{inbox_prefix(name)}.>"]


def test_questions_are_asked_from_an_account_of_their_own() -> None:
    assert USERS["gateway-query"].account is AccountName.QUERY
    assert not any(may_publish(name, f"query.{CLUSTER}.scheduler.why") for name in USERS if name != "gateway-query")


def test_a_service_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        bus_users((*DECLARATIONS, Declaration("agent")), clusters=(CLUSTER,))


def test_a_dashboards_rights_hold_its_teams_and_nothing_to_publish() -> None:
    rights = view_rights(clusters=("a",), teams=("vision",), inbox="_INBOX.x")
    assert rights.publish == ()
    seen = ("view.a.vision.>", "view.a.public.>", "view.fed.vision.>", "view.fed.public.>")
    assert rights.subscribe == (*seen, "_INBOX.x.>")


SIGNER = ViewSigner(new_key(PREFIX_ACCOUNT, b"s" * 32), new_key(PREFIX_ACCOUNT, b"a" * 32).public)


def mint(expires_in_s: float = 60) -> str:
    return mint_view_user(
        SIGNER, clusters=("a",), teams=("vision",), now_s=1000, expires_in_s=expires_in_s, entropy=b"u" * 32
    ).jwt


def test_who_may_publish_nothing_is_denied_everything() -> None:
    claims = claims_of(mint())
    assert claims["nats"]["pub"] == {"deny": [">"]}  # type: ignore[index] # an empty allow list would allow all
    assert claims["exp"] == 1060


@pytest.mark.parametrize("expires_in_s", [0, -1, 3601, float("inf"), float("nan")])
def test_a_dashboards_credential_ends_within_the_hour(expires_in_s: float) -> None:
    with pytest.raises(ValueError, match="expires_in_s"):
        mint(expires_in_s)


@pytest.mark.parametrize("team", [">", "a.>", "a.*", "", "A", "vision.speech", "vision\n"])
def test_a_team_that_is_no_name_cannot_widen_a_dashboards_rights(team: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        mint_view_user(SIGNER, clusters=("a",), teams=(team,), now_s=1, expires_in_s=60, entropy=b"u" * 32)


def test_the_same_claims_make_the_same_token() -> None:
    assert mint() == mint()


def test_a_key_does_not_show_its_seed() -> None:
    assert SIGNER.key.seed not in repr(SIGNER)
    assert SIGNER.key.seed not in str(SIGNER.key)


@given(st.binary(min_size=32, max_size=32))
def test_a_key_survives_its_seed(entropy: bytes) -> None:
    key = new_key(PREFIX_ACCOUNT, entropy)
    assert key_of_seed(key.seed) == key
    assert key.public.startswith("A")
    assert ViewSigner.load(ViewSigner(key, "A").dump()).key == key


def test_a_creds_file_holds_token_and_seed() -> None:
    user = USERS["agent"]
    key = new_key(PREFIX_ACCOUNT, b"k" * 32)
    token = user_jwt(user.rights, name="agent", user="U", signer=key, account=key.public, issued_at_s=1)
    lines = creds_file(token, key).splitlines()
    assert token in lines
    assert key.seed in lines
    assert "issuer_account" not in claims_of(token)["nats"]  # type: ignore[operator]
