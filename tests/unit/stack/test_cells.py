"""A centre and its cells on one machine: who runs where, with which rights, and what outlasts a start."""

from pathlib import Path
from typing import cast

import pytest

from muster.bus.access import BusUser
from muster.bus.jwt import claims_of
from muster.bus.leaf import ASKED, cell_rights, cell_user, crossing
from muster.bus.own_account import is_within
from muster.bus.settings import Settings
from muster.stack.cells import cell_of, cell_port, wanted_cell_ports
from muster.stack.declared import (
    CENTRE_SERVICES,
    SERVICES,
    declaration_of,
    dump_users,
    load_users,
    services_of,
    users_of_bus,
)
from muster.stack.keys import MintedAccess, mint_access
from muster.stack.options import StartOptions, asked_settings, refuse_another_role
from muster.stack.parts import Layout
from muster.stack.provision import provision
from muster.stack.state_dir import StateDir, StateDirError

CLUSTERS = ("east", "west")


def centre(directory: Path) -> Settings:
    return asked_settings(StartOptions(state_dir=directory, clusters=CLUSTERS))


def cell(directory: Path) -> Settings:
    options = StartOptions(
        state_dir=directory,
        clusters=CLUSTERS,
        settings={"fleet": {"nodes": 4}},
        cells={"west": {"fleet": {"nodes": 2}}},
    )
    ports = wanted_cell_ports(CLUSTERS, options, {})
    return cell_of("west", centre=asked_settings(options), options=options, ports=ports).settings


def test_every_service_runs_in_the_centre_or_in_the_cells_and_none_in_both(tmp_path: Path) -> None:
    in_centre, in_cell = services_of(centre(tmp_path / "a")), services_of(cell(tmp_path / "b"))
    assert sorted((*in_centre, *in_cell)) == sorted(SERVICES)
    assert {"gateway", "federation", "projector"} <= set(in_centre)
    assert {"scheduler", "agent"} <= set(in_cell)


def test_a_cell_has_the_common_settings_and_its_own_and_nodes_that_no_other_cluster_has(tmp_path: Path) -> None:
    settings = cell(tmp_path)
    assert (settings.role, settings.cluster, settings.clusters) == ("cell", "west", ("west",))
    assert (settings.fleet.nodes, settings.fleet.prefix) == (2, "west-gpu")


def test_the_centre_is_told_for_which_teams_namespaces_act_as_the_cells_are(tmp_path: Path) -> None:
    options = StartOptions(
        state_dir=tmp_path,
        clusters=CLUSTERS,
        settings={"kubernetes": {"teams": {"lab": "research"}}},
        cells={"west": {"kubernetes": {"teams": {"ml": "vision"}}}},
    )
    settings = asked_settings(options)
    teams = {member.name: member.teams for member in settings.federation.clusters}
    assert teams == {"east": {"lab": "research"}, "west": {"lab": "research", "ml": "vision"}}
    ports = wanted_cell_ports(CLUSTERS, options, {})
    for name in CLUSTERS:
        own = cell_of(name, centre=settings, options=options, ports=ports).settings.kubernetes
        assert own is not None
        assert own.teams == teams[name]


def test_ports_of_all_cells_differ(tmp_path: Path) -> None:
    options = StartOptions(state_dir=tmp_path)
    wanted = wanted_cell_ports(CLUSTERS, options, {})
    assert len(set(wanted.values())) == len(wanted)
    assert wanted_cell_ports(CLUSTERS, options, {cell_port("east", "nats"): 5000})[cell_port("east", "nats")] == 5000


def test_no_fact_subject_of_a_log_crosses_a_link() -> None:
    rights = cell_rights("east")
    assert not [subject for subject in (*rights.publish, *rights.subscribe) if subject.startswith(("muster.", ">"))]
    assert not [subject for subject in rights.publish if subject.startswith("$JS.east.")]


def test_a_cells_credential_outlasts_the_centres_next_start_and_others_do_not(tmp_path: Path) -> None:
    users = users_of_bus([declaration_of("federation")], centre(tmp_path / "state"))

    def start(now_s: int) -> MintedAccess:
        return mint_access(keys_dir=tmp_path / "keys", credentials_dir=tmp_path / "creds", users=users, now_s=now_s)

    access = start(1_000)
    assert nats_of(access, access.log_account)["revocations"] == {"*": 999}
    account = account_of(tmp_path / "creds" / "cell-east.creds")
    assert account != access.log_account, "it is of an account of its own"
    assert "revocations" not in nats_of(access, account)


def test_what_a_cell_may_do_is_what_the_centres_newest_start_says(tmp_path: Path) -> None:
    def start(*users: BusUser) -> dict[str, dict[str, dict[str, list[str]]]]:
        paths = {"keys_dir": tmp_path / "keys", "credentials_dir": tmp_path / "creds"}
        return scopes_of(mint_access(**paths, users=users, now_s=1_000))

    before = start(cell_user("east"), cell_user("west"))
    claims = claims_of((tmp_path / "creds" / "cell-east.creds").read_text().splitlines()[1])
    assert not {"pub", "sub"} & set(cast("dict[str, object]", claims["nats"])), "the token says no rights of its own"
    key = str(claims["iss"])
    assert "deny" not in before[key]["pub"]
    after = start(cell_user("east", kept=("webhook-pager",)))
    assert after[key]["pub"]["deny"] == ["$JS.fed.API.CONSUMER.CREATE.FED.webhook-pager.>"]
    assert set(after) == {key}, "what signed for a cluster that is gone signs for nobody"


def test_between_a_cells_account_and_the_logs_passes_what_is_listed_and_nothing_of_other_cells(tmp_path: Path) -> None:
    users = [cell_user(name) for name in CLUSTERS]
    access = mint_access(keys_dir=tmp_path / "keys", credentials_dir=tmp_path / "creds", users=users, now_s=1_000)
    listed, account = crossing("east"), account_of(tmp_path / "creds" / "cell-east.creds")
    assert subjects_of(access, account, "imports") == {*listed.asked, *listed.tells}
    assert subjects_of(access, account, "exports") == {*listed.asks, *listed.told}
    exported = subjects_of(access, access.log_account, "exports")
    assert exported >= set(listed.tells)
    assert all(any(is_within(one, pattern) for pattern in exported) for one in listed.asked)
    assert not [subject for subject in subjects_of(access, account, "imports") if "west" in subject]
    assert "jetstream" not in nats_of(access, account)
    assert nats_of(access, account)["limits"].get("streams", 0) == 0


def test_every_service_of_a_cell_that_answers_may_be_asked_by_the_centre_and_none_of_its_own(tmp_path: Path) -> None:
    in_cell = {name for name in services_of(cell(tmp_path)) if declaration_of(name).queries}
    assert in_cell <= set(ASKED)
    assert not set(ASKED) & CENTRE_SERVICES


def test_the_centres_webhooks_are_kept_from_cells(tmp_path: Path) -> None:
    webhook = {"name": "pager", "url": "http://127.0.0.1:1", "events": ["cluster-changed"]}
    settings = asked_settings(StartOptions(state_dir=tmp_path, clusters=CLUSTERS, settings={"webhooks": [webhook]}))
    users = load_users(dump_users(users_of_bus([declaration_of("federation")], settings)))
    assert {user.rights for user in users if user.cell} == {
        cell_rights(cluster, kept=("webhook-pager",)) for cluster in CLUSTERS
    }


def nats_of(access: MintedAccess, account: str) -> dict[str, dict[str, int]]:
    told = claims_of(access.accounts[account])
    return cast("dict[str, dict[str, int]]", told["nats"])


def subjects_of(access: MintedAccess, account: str, which: str) -> set[str]:
    """What an account exports or imports."""
    rows = cast("list[dict[str, str]]", nats_of(access, account)[which])
    return {row["subject"] for row in rows}


def scopes_of(access: MintedAccess) -> dict[str, dict[str, dict[str, list[str]]]]:
    """The templates of all accounts, by the key that signs for them."""
    told = [nats_of(access, account)["signing_keys"] for account in access.accounts]
    keys = [key for one in cast("list[list[object]]", told) for key in one if isinstance(key, dict)]
    return {str(key["key"]): key["template"] for key in keys}


def account_of(credentials: Path) -> str:
    nats = cast("dict[str, str]", claims_of(credentials.read_text().splitlines()[1])["nats"])
    return nats["issuer_account"]


def test_a_directory_is_a_whole_stacks_or_a_federations_and_not_both(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.settings.write_text('{"role": "whole"}')
    with pytest.raises(StateDirError, match="--fresh"):
        refuse_another_role(state, centre(tmp_path))


LAYOUT = Layout(http_url="http://127.0.0.1:1", websocket_url="ws://127.0.0.1:2", nats_url="nats://127.0.0.1:3")
NOW_S = 1_700_000_000


def apart(directory: Path, **fields: object) -> Settings:
    return Settings.model_validate({"state_dir": directory, "credentials_dir": directory, **fields})


def test_a_centre_that_runs_apart_makes_each_cell_its_credential_and_nothing_else(tmp_path: Path) -> None:
    members = {"clusters": [{"name": name} for name in CLUSTERS]}
    names = provision(tmp_path, LAYOUT, apart(tmp_path, role="centre", federation=members), now_s=NOW_S)
    assert {"gateway", "federation", "cell-east", "cell-west"} <= set(names)
    assert "scheduler" not in names
    assert [file.name for file in (tmp_path / "cell-east").rglob("*")] == ["centre.creds"]
    config = (tmp_path / "nats" / "nats-server.conf").read_text()
    assert 'domain: "fed"' in config
    assert ":7422" in config


def test_a_cell_that_runs_apart_joins_by_that_credential_and_is_refused_without(tmp_path: Path) -> None:
    credential = tmp_path / "given.creds"
    credential.write_text("the centre's")
    centre = {"url": "tls://centre.example:7422", "credentials": str(credential)}
    settings = apart(tmp_path, role="cell", cluster="east", federation={"centre": centre})
    names = provision(tmp_path / "cell", LAYOUT, settings, now_s=NOW_S)
    assert {"scheduler", "agent"} <= set(names)
    assert "gateway" not in names
    config = (tmp_path / "cell" / "nats" / "nats-server.conf").read_text()
    assert 'domain: "east"' in config
    assert "tls://centre.example:7422" in config
    assert (tmp_path / "cell" / "nats" / "centre.creds").read_text() == "the centre's"
    with pytest.raises(ValueError, match=r"federation\.centre"):
        provision(tmp_path / "lonely", LAYOUT, apart(tmp_path, role="cell", cluster="east"), now_s=NOW_S)
