"""What somebody gets who forges, borrows or floods with tokens of an identity provider: nothing.

The provider and the API server are real HTTP servers on loopback; the gateway is its whole HTTP application.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import jwt
import pytest
from jwt.algorithms import ECAlgorithm
from pydantic import ValidationError

from kit.clocks import FakeTime
from kit.http.gateway import FakeHarness
from kit.http.oidc_provider import AUDIENCE, Key, OidcProvider, oidc_provider, unsigned
from kit.kube.fake import Bearer, FakeKube, fake_kube
from kit.stack.kubernetes import kubeconfig_for
from muster.bus.gateway_settings import (
    TOKEN_BYTES_MAX,
    GroupRoleSettings,
    IdentitySettings,
    OidcSettings,
    TokenReviewSettings,
)
from muster.core.instant import NS_PER_S
from muster.gateway.http import make_app
from muster.gateway.identity import opened_identities
from muster.schemas.access import Role, TokenRecord, token_hash

NOW_S = 1_800_000_000
GROUPS = (
    GroupRoleSettings(group="oidc:research", role=Role.SUBMITTER, teams=("blue",)),
    GroupRoleSettings(group="oidc:vision", role=Role.SUBMITTER, teams=("red",)),
    GroupRoleSettings(group="oidc:platform", role=Role.OPERATOR),
    GroupRoleSettings(group="k8s:system:serviceaccounts:blue", role=Role.SUBMITTER, teams=("blue",)),
)
ACCOUNT = "system:serviceaccount:blue:runner"
ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:blue", "system:authenticated")


MISFITS: tuple[dict[str, object], ...] = (
    {"iss": "https://evil.example"},
    {"iss": None},
    {"aud": "another-service"},
    {"aud": ["another-service", "muster-too"]},
    {"aud": None},
    {"sub": None},
    {"sub": 7},
    {"sub": ""},
    {"sub": "ann\n"},
    {"sub": "a" * 300},
    {"exp": None},
    {"exp": NOW_S - 31},
    {"exp": "tomorrow"},
    {"exp": True},
    {"exp": float("inf")},
    {"exp": float("nan")},
    {"exp": NOW_S * 1_000},
    {"nbf": NOW_S + 60},
    {"iat": NOW_S + 60},
    {"groups": {"research": True}},
    {"groups": ["research", 7]},
)


@dataclass
class Stage:
    """A gateway that trusts a provider."""

    provider: OidcProvider
    kube: FakeKube
    harness: FakeHarness
    time: FakeTime

    def account_token(self, name: str = ACCOUNT, **claims: object) -> str:
        """A token of a service account, which the API server does not know yet."""
        said = {"iss": "https://kubernetes.default.svc", "aud": [AUDIENCE], "sub": name, "exp": NOW_S + 3_600, **claims}
        return unsigned({"alg": "RS256", "kid": "sa"}, said, b"signature")

    @property
    def reviews(self) -> int:
        return self.kube.count("create", "tokenreviews.authentication.k8s.io")

    async def get(self, token: str, path: str = "/v1/me") -> httpx.Response:
        async with self.harness.client(token) as client:
            return await client.get(path)

    async def status(self, token: str) -> int:
        return (await self.get(token)).status_code


@asynccontextmanager
async def staged(**changes: object) -> AsyncIterator[Stage]:
    """changes: fields of OidcSettings."""
    async with oidc_provider() as provider, fake_kube() as kube, AsyncExitStack() as closing:
        time = FakeTime(wall_ns=NOW_S * NS_PER_S)
        provider.now_s = lambda: time.wall_ns // NS_PER_S
        harness = FakeHarness()
        oidc = OidcSettings.model_validate({"issuer": provider.url, "audience": AUDIENCE, **changes})
        folder = closing.enter_context(TemporaryDirectory())
        review = TokenReviewSettings(kubeconfig=kubeconfig_for(kube.url, Path(folder)), timeout_s=2)
        settings = IdentitySettings(oidc=oidc, token_review=review, groups=GROUPS)
        found = await opened_identities(settings, closing, time=time, metrics=harness.harness.metrics)
        harness.harness = replace(harness.harness, identities=found)
        harness.app = make_app(harness.harness)
        yield Stage(provider, kube, harness, time)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as made:
        yield made


def told(answer: httpx.Response) -> dict[str, object]:
    """Return who the gateway takes the sender for."""
    said = answer.json()
    return {name: said[name] for name in ("principal", "role", "teams")}


async def test_a_user_of_the_provider_has_the_role_and_the_teams_of_the_users_groups(stage: Stage) -> None:
    answer = await stage.get(stage.provider.token(groups=["research", "vision", "unheard-of"]))
    assert told(answer) == {"principal": "oidc:ann", "role": "submitter", "teams": ["blue", "red"]}
    assert (await stage.get(stage.provider.token(groups=["research", "platform"]))).json()["role"] == "operator"


async def test_a_user_of_no_listed_group_is_refused(stage: Stage) -> None:
    answer = await stage.get(stage.provider.token(groups=["unheard-of"]))
    assert (answer.status_code, "identity.groups" in answer.json()["cure"]) == (403, True)
    assert await stage.status(stage.provider.token(groups=None)) == 403


async def test_an_unsigned_token_or_one_of_another_algorithm_is_refused(stage: Stage) -> None:
    provider = stage.provider
    assert await stage.status(provider.token()) == 200, "the keys are known"
    for name in ("none", "None", "NONE", "", "HS256", "RS384", "PS256", "RS256", "EdDSA", "ES256"):
        header = {"alg": name, "typ": "JWT", "kid": provider.key.id}
        for signature in (b"", b"x" * 64):
            assert await stage.status(unsigned(header, provider.claims(), signature)) == 401, name


async def test_a_token_signed_by_hmac_with_the_public_key_is_refused(stage: Stage) -> None:
    provider = stage.provider
    assert await stage.status(provider.token()) == 200
    header = {"alg": "HS256", "typ": "JWT", "kid": provider.key.id}
    text = unsigned(header, provider.claims()).rstrip(".")
    public = (provider.key.public_pem, json.dumps(provider.key.public).encode())
    for secret in public:
        signature = hmac.digest(secret, text.encode(), hashlib.sha256)
        forged = unsigned(header, provider.claims(), signature)
        assert await stage.status(forged) == 401


async def test_a_key_in_the_token_itself_is_not_used(stage: Stage) -> None:
    own = Key(stage.provider.key.id)
    headers: dict[str, object] = {"jwk": own.public, "jku": f"{stage.provider.url}/mine", "x5u": "http://127.0.0.1/"}
    assert await stage.status(stage.provider.token(key=own, headers=headers)) == 401
    assert stage.provider.asked("/mine") == 0


async def test_a_signed_token_with_claims_that_do_not_fit_is_refused(stage: Stage) -> None:
    answers = [(await stage.status(stage.provider.token(**changes)), changes) for changes in MISFITS]
    assert [changes for status, changes in answers if status != 401] == []


async def test_a_signed_token_of_another_kind_is_refused(stage: Stage) -> None:
    provider = stage.provider
    good = jwt.get_unverified_header(provider.token())
    others: tuple[dict[str, object], ...] = (
        {"typ": "logout+jwt"}, {"typ": 7}, {"crit": ["exp"]}, {"kid": None}, {"kid": ""}, {"kid": ["key-1"]},
    )  # fmt: skip
    for changes in ({}, *others):
        header = {name: value for name, value in {**good, **changes}.items() if value is not None}
        text = unsigned(header, provider.claims()).rstrip(".")
        signature = ECAlgorithm(ECAlgorithm.SHA256).sign(text.encode(), provider.key.private)
        expected = 401 if changes else 200
        assert await stage.status(unsigned(header, provider.claims(), signature)) == expected, changes


async def test_one_changed_claim_breaks_the_signature(stage: Stage) -> None:
    head, _, signature = stage.provider.token().split(".")
    _, body, _ = unsigned({}, stage.provider.claims(groups=["platform"])).split(".")
    assert await stage.status(f"{head}.{body}.{signature}") == 401


async def test_nonsense_is_refused_without_asking_anybody(stage: Stage) -> None:
    nonsense = (
        b"a.b.c",
        b"..",
        b"a" * (TOKEN_BYTES_MAX + 1),
        b"a" * TOKEN_BYTES_MAX + b".b.c",
        unsigned({"alg": "ES256"}, {}).encode() + "é".encode("latin-1"),
        b".".join([b"W1tb" * 2_000, b"W1tb" * 2_000, b"eA"]),  # [[[[...: a document nested thousands deep
        unsigned({"alg": "ES256", "kid": "key-1"}, {"iss": "x", "exp": 10**4_000}).encode(),
    )
    async with stage.harness.client("") as client:
        for token in nonsense:
            answer = await client.get("/v1/me", headers={b"Authorization": b"Bearer " + token})
            assert answer.status_code == 401, token[:40]
    assert not stage.provider.requests
    assert stage.reviews == 0


async def test_a_flood_of_unknown_keys_makes_one_fetch_in_a_time(stage: Stage) -> None:
    flood = [stage.provider.token(key=Key(f"mine-{number}")) for number in range(40)]
    assert set(await asyncio.gather(*map(stage.status, flood))) == {401}
    assert stage.provider.asked("/keys") == 1
    stage.time.advance(31)
    assert set(await asyncio.gather(*map(stage.status, flood))) == {401}
    assert stage.provider.asked("/keys") == 2


async def test_a_flood_of_forged_tokens_takes_bounded_memory(stage: Stage) -> None:
    identities = stage.harness.harness.identities
    assert identities is not None
    identities._settings = identities._settings.model_copy(update={"refused_max": 16, "cached_max": 4})
    good = [stage.provider.token(sub=f"user-{number}") for number in range(8)]
    bad = [unsigned({"alg": "ES256", "kid": "key-1"}, {"iss": "x", "jti": number}) for number in range(64)]
    await asyncio.gather(*map(stage.status, [*good, *bad]))
    assert (len(identities._refused), len(identities._accepted), len(identities._checks)) == (16, 4, 0)


async def test_a_new_key_is_honoured_and_the_old_one_ends(stage: Stage) -> None:
    before = stage.provider.token(exp=NOW_S + 90_000)
    assert await stage.status(before) == 200
    stage.provider.rotate()
    stage.time.advance(31)
    assert await stage.status(stage.provider.token()) == 200
    stage.time.advance(61)
    assert await stage.status(before) == 401, "its key was taken back"


async def test_a_key_that_is_public_to_everybody_is_none(stage: Stage) -> None:
    """A key set with a symmetric key, one for encryption, and one without an id."""
    shared = {"kty": "oct", "k": "c2VjcmV0" * 8, "kid": "shared", "alg": "HS256"}
    stage.provider.extra_keys = [shared, {**Key("enc").public, "use": "enc"}, {**Key("x").public, "kid": 7}]
    forged = jwt.encode(stage.provider.claims(), "secret" * 8, algorithm="HS256", headers={"kid": "shared"})
    assert await stage.status(forged) == 401
    assert await stage.status(stage.provider.token()) == 200


async def test_a_discovery_document_of_another_issuer_brings_no_keys(stage: Stage) -> None:
    stage.provider.discovery_changes = {"issuer": "https://evil.example"}
    assert await stage.status(stage.provider.token()) == 503
    assert stage.provider.asked("/keys") == 0


async def test_keys_over_plain_http_from_elsewhere_are_not_fetched(stage: Stage) -> None:
    stage.provider.discovery_changes = {"jwks_uri": "http://192.0.2.1/keys"}
    assert await stage.status(stage.provider.token()) == 503


async def test_while_the_provider_is_down_own_tokens_and_known_keys_go_on(stage: Stage) -> None:
    token = stage.provider.token(exp=NOW_S + 90_000)
    assert await stage.status(token) == 200
    stage.provider.is_down = True
    stage.time.advance(3_700)  # keys are due, and cannot be had
    assert [await stage.status(one) for one in ("ann", token)] == [200, 200]
    stage.time.advance(86_400)  # so long they are not believed
    assert [await stage.status(one) for one in ("ann", token)] == [200, 503]


async def test_without_a_provider_from_the_start_own_tokens_work(stage: Stage) -> None:
    stage.provider.is_down = True
    assert [await stage.status(one) for one in ("ann", stage.provider.token())] == [200, 503]
    assert stage.provider.asked("/.well-known/openid-configuration") == 1
    await asyncio.gather(*(stage.status(stage.provider.token(sub=f"user-{number}")) for number in range(20)))
    assert stage.provider.asked("/.well-known/openid-configuration") == 1, "a provider that is down is not flooded"


async def test_an_accepted_token_ends_when_it_says(stage: Stage) -> None:
    token = stage.provider.token(exp=NOW_S + 10)
    assert await stage.status(token) == 200
    stage.time.advance(39)  # within the leeway
    assert await stage.status(token) == 200
    stage.time.advance(2)
    assert await stage.status(token) == 401
    identities = stage.harness.harness.identities
    assert identities is not None
    assert identities.cached(token) is None


async def test_no_user_of_the_provider_is_named_as_somebody_else(stage: Stage) -> None:
    for name in ("root", "kubernetes:default", "scheduler"):
        answer = await stage.get(stage.provider.token(sub=name))
        assert answer.json()["principal"] == f"oidc:{name}"


async def test_no_token_of_musters_own_is_named_as_a_user_of_others(stage: Stage) -> None:
    for name in ("oidc:ann", "kubernetes:default"):
        async with stage.harness.client("root") as admin:
            answer = await admin.post("/v1/tokens", json={"principal": name, "role": "viewer"})
            assert (answer.status_code, answer.json()["field"]) == (422, "principal")
        stage.harness.tokens.set(token_hash("older"), TokenRecord(principal=name, role=Role.ADMIN))
        assert await stage.status("older") == 401


async def test_an_email_address_counts_only_if_it_was_verified() -> None:
    async with staged(name_claim="email") as stage:
        token = stage.provider.token(email="ann@example.com", email_verified=True)
        assert (await stage.get(token)).json()["principal"] == "oidc:ann@example.com"
        for verified in (None, False, "true", 1):
            claims = {"email": "root@example.com", "email_verified": verified}
            assert await stage.status(stage.provider.token(**claims)) == 401
        assert await stage.status(stage.provider.token(email=["ann@example.com"], email_verified=True)) == 401


async def test_pages_and_probes_make_nobody_look_at_a_token(stage: Stage) -> None:
    for path in ("/healthz", "/metrics", "/openapi.json", "/"):
        await stage.get(stage.provider.token(), path)
    assert not stage.provider.requests


async def test_no_answer_and_no_metric_repeats_a_token(stage: Stage) -> None:
    tokens = [stage.provider.token(), stage.provider.token(aud="else"), unsigned({"alg": "none"}, {"iss": "x"})]
    answers = [(await stage.get(token)).text for token in tokens] + [(await stage.get("", "/metrics")).text]
    for token in tokens:
        assert not any(part in text for text in answers for part in token.split(".") if part)


async def test_a_service_account_has_the_role_of_its_groups_and_is_named_apart(stage: Stage) -> None:
    token = stage.account_token()
    stage.kube.bearers[token] = Bearer(ACCOUNT, ACCOUNTS, (AUDIENCE, "other"))
    answer = await stage.get(token)
    assert told(answer) == {"principal": f"k8s:{ACCOUNT}", "role": "submitter", "teams": ["blue"]}
    other = stage.account_token("system:serviceaccount:red:runner")
    stage.kube.bearers[other] = Bearer("system:serviceaccount:red:runner", ("system:authenticated",), (AUDIENCE,))
    assert await stage.status(other) == 403


async def test_a_group_of_one_source_gives_nothing_to_users_of_another(stage: Stage) -> None:
    token = stage.account_token()
    stage.kube.bearers[token] = Bearer("eve", ("platform", "oidc:platform"), (AUDIENCE,))
    assert await stage.status(token) == 403
    assert await stage.status(stage.provider.token(groups=["system:serviceaccounts:blue", "k8s:x"])) == 403


async def test_a_token_for_another_audience_is_refused(stage: Stage) -> None:
    elsewhere = stage.account_token(aud=["https://kubernetes.default.svc"])
    stage.kube.bearers[elsewhere] = Bearer(ACCOUNT, ACCOUNTS, ("https://kubernetes.default.svc",))
    assert (await stage.status(elsewhere), stage.reviews) == (401, 0), "it is not even shown to the API server"
    claims_to_be_ours = stage.account_token()
    stage.kube.bearers[claims_to_be_ours] = Bearer(ACCOUNT, ACCOUNTS, ("https://kubernetes.default.svc",))
    assert await stage.status(claims_to_be_ours) == 401
    unaware = stage.account_token(jti="2")
    stage.kube.bearers[unaware] = Bearer(ACCOUNT, ACCOUNTS, None)
    assert await stage.status(unaware) == 401, "a server that does not know audiences proves none"


async def test_a_token_that_the_api_server_does_not_know_is_refused_and_not_asked_for_again(stage: Stage) -> None:
    token = stage.account_token()
    assert [await stage.status(token) for _ in range(5)] == [401] * 5
    assert stage.reviews == 1


async def test_a_deleted_account_ends_within_the_time_that_an_answer_counts(stage: Stage) -> None:
    token = stage.account_token()
    stage.kube.bearers[token] = Bearer(ACCOUNT, ACCOUNTS, (AUDIENCE,))
    assert [await stage.status(token) for _ in range(5)] == [200] * 5
    assert stage.reviews == 1
    del stage.kube.bearers[token]
    stage.time.advance(31)
    assert await stage.status(token) == 401


async def test_requests_at_once_with_one_token_make_one_review(stage: Stage) -> None:
    token = stage.account_token()
    stage.kube.bearers[token] = Bearer(ACCOUNT, ACCOUNTS, (AUDIENCE,))
    assert set(await asyncio.gather(*(stage.status(token) for _ in range(30)))) == {200}
    assert stage.reviews == 1


async def test_a_flood_of_strangers_reaches_the_api_server_at_a_bounded_rate_and_stops_no_known_account(
    stage: Stage,
) -> None:
    token = stage.account_token()
    stage.kube.bearers[token] = Bearer(ACCOUNT, ACCOUNTS, (AUDIENCE,))
    assert await stage.status(token) == 200
    stage.time.advance(31)  # the account has to be asked for again
    strangers = [stage.account_token(jti=number) for number in range(100)]
    answers = await asyncio.gather(*map(stage.status, strangers))
    assert (answers.count(401), answers.count(503)) == (20, 80)
    assert stage.reviews == 21
    assert await stage.status(token) == 200
    assert await stage.status(stage.provider.token()) == 200


async def test_while_the_api_server_is_down_everybody_else_goes_on(stage: Stage) -> None:
    token = stage.account_token()
    stage.kube.bearers[token] = Bearer(ACCOUNT, ACCOUNTS, (AUDIENCE,))
    assert await stage.status(token) == 200
    async with stage.kube.outage():
        assert await stage.status(token) == 200, "the answer still counts"
        stage.time.advance(31)
        statuses = [await stage.status(one) for one in (token, "ann", stage.provider.token())]
    assert statuses == [503, 200, 200]
    assert await stage.status(token) == 200


async def test_a_revoked_token_of_musters_own_is_shown_to_nobody(stage: Stage) -> None:
    assert await stage.status("0f" * 32) == 401
    assert (stage.reviews, stage.provider.requests.total()) == (0, 0)


@pytest.mark.parametrize(
    "said",
    [
        {"oidc": {"issuer": "http://login.example.com", "audience": "muster"}},
        {"oidc": {"issuer": "https://login.example.com", "audience": ""}},
        {"oidc": {"issuer": "https://login.example.com", "audience": "muster", "algorithms": ["HS256"]}},
        {"oidc": {"issuer": "https://login.example.com", "audience": "muster", "algorithms": ["none"]}},
        {"oidc": {"issuer": "https://login.example.com", "audience": "muster", "prefix": ""}},
        {"oidc": {"issuer": "https://login.example.com", "audience": "muster", "prefix": "kubernetes:"}},
        {"oidc": {"issuer": "https://x.example", "audience": "muster", "prefix": "k8s:"}, "token_review": {}},
        {"groups": [{"group": "oidc:research", "role": "admin"}]},
        {"token_review": {}, "groups": [{"group": "system:masters", "role": "admin"}]},
        {"token_review": {}, "groups": [{"group": "k8s:a", "role": "viewer", "teams": ["blue"]}]},
    ],
    ids=str,
)
def test_settings_that_open_a_hole_are_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        IdentitySettings.model_validate(said)
