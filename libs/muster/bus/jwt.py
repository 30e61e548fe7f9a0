"""NATS JWTs (version 2): signed permissions of accounts and users. Pure: keys and times are arguments.

A token is `<header>.<claims>.<signature>`, each part base64url without padding; the signature (Ed25519, by the issuer's
nkey) covers the first two parts. nats-server in operator mode checks the chain operator, account, user.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import nkeys

from muster.bus.access import AccountName, Rights, view_rights
from muster.schemas.base import NAME_PATTERN

Json = Mapping[str, object]

UNLIMITED = -1
EVERY_TEAM = "*"
SEED_BYTES = 32
VIEW_SIGNER_FILE = "view-signer.json"  # in the credentials directory; text of `ViewSigner`
VIEW_SUBSCRIPTIONS_MAX = 256  # of one dashboard: two per team and log, and the output of a few jobs
VIEW_EXPIRES_S_MAX = 3_600.0  # a dashboard asks the gateway anew: a leaked credential is worth an hour at most

PREFIX_OPERATOR = cast("int", nkeys.PREFIX_BYTE_OPERATOR)
PREFIX_ACCOUNT = cast("int", nkeys.PREFIX_BYTE_ACCOUNT)
PREFIX_USER = cast("int", nkeys.PREFIX_BYTE_USER)


@dataclass(frozen=True, slots=True)
class Key:
    """An nkey: `seed` (S...) signs, `public` (O..., A... or U...) names."""

    seed: str
    public: str

    def __repr__(self) -> str:
        """Return the key without its seed, so that no log line or traceback shows it."""
        return f"Key({self.public})"

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature, 64 bytes."""
        return cast("bytes", nkeys.from_seed(self.seed.encode()).sign(message))


def key_of_seed(seed: str) -> Key:
    """Return the key pair of an encoded seed. Raises nkeys.NkeysError if it is not a seed."""
    return Key(seed, cast("bytes", nkeys.from_seed(seed.encode()).public_key).rstrip(b"=").decode())


def new_key(prefix: int, entropy: bytes) -> Key:
    """Return a key pair from 32 random bytes. prefix: PREFIX_OPERATOR, PREFIX_ACCOUNT or PREFIX_USER."""
    return key_of_seed(cast("bytes", nkeys.encode_seed(entropy, prefix)).decode())


def _part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def sign_claims(claims: Json, issuer: Key) -> str:
    """Return the token of `claims`; `jti` is their hash, so the same claims make the same token."""
    jti = base64.b32encode(hashlib.sha256(_dump(claims)).digest()).rstrip(b"=").decode()
    header = _part(_dump({"typ": "JWT", "alg": "ed25519-nkey"}))
    body = _part(_dump({**claims, "jti": jti}))
    return f"{header}.{body}.{_part(issuer.sign(f'{header}.{body}'.encode()))}"


def claims_of(token: str) -> dict[str, object]:
    """Return the claims of a token without a check of its signature: for tests and diagnostics."""
    body = token.split(".")[1]
    return cast("dict[str, object]", json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def operator_jwt(operator: Key, *, issued_at_s: int) -> str:
    """Return the token of the operator, the root of trust, signed by itself."""
    nats = {"type": "operator", "version": 2}
    claims = {"iss": operator.public, "sub": operator.public, "name": "muster", "iat": issued_at_s, "nats": nats}
    return sign_claims(claims, operator)


@dataclass(frozen=True, slots=True)
class Scope:
    """A key of an account that signs for users of these rights only: the account has the rights, not the tokens.

    key: public. role: for people.
    """

    key: str
    role: str
    rights: Rights


@dataclass(frozen=True, slots=True)
class AccountSpec:
    """One account: what it shares and takes from others, and who besides its own key may sign for it.

    revoked_before_s: user tokens issued at or before it are void, so a changed declaration takes rights back. scopes:
    keys that sign for certain rights alone.
    """

    name: AccountName
    jetstream: bool = False
    exports: tuple[Json, ...] = ()
    imports: tuple[Json, ...] = ()
    signing_keys: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    revoked_before_s: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    mappings: Mapping[str, str] = field(default_factory=dict)
    """Subjects that clients publish to, and what the account takes them for before it looks at anything else."""


def account_jwt(spec: AccountSpec, *, account: Key, operator: Key, issued_at_s: int) -> str:
    """Return an account's token. It enables JetStream if the limits of the account do; nothing else is limited here."""
    unlimited = ["subs", "data", "payload", "imports", "exports", "conn", "leaf"]
    if spec.jetstream:
        unlimited += ["mem_storage", "disk_storage", "streams", "consumer", "max_ack_pending"]
    limits: dict[str, object] = {"wildcards": True, **dict.fromkeys(unlimited, UNLIMITED), **spec.limits}
    nats: dict[str, object] = {
        "type": "account",
        "version": 2,
        "limits": limits,
        "exports": list(spec.exports),
        "imports": list(spec.imports),
        "signing_keys": [*spec.signing_keys, *map(_scope, spec.scopes)],
        "default_permissions": {"pub": {}, "sub": {}},
    }
    if spec.mappings:
        nats["mappings"] = {source: [{"subject": to, "weight": 100}] for source, to in spec.mappings.items()}
    if spec.revoked_before_s is not None:
        nats["revocations"] = {"*": spec.revoked_before_s}
    claims = {"iss": operator.public, "sub": account.public, "name": spec.name, "iat": issued_at_s, "nats": nats}
    return sign_claims(claims, operator)


def user_jwt(
    rights: Rights,
    *,
    name: str,
    user: str,
    signer: Key,
    account: str,
    issued_at_s: int,
    expires_at_s: int | None = None,
    subscriptions_max: int = UNLIMITED,
) -> str:
    """Return a user's token. user, account: public keys; signer: the account's key or one of its signing keys.

    Empty rights deny everything: in NATS an empty allow list would mean the opposite.
    """
    nats: dict[str, object] = {"type": "user", "version": 2, **_limits(rights, subscriptions_max=subscriptions_max)}
    return _user(nats, name=name, user=user, signer=signer, account=account, at_s=(issued_at_s, expires_at_s))


def scoped_user_jwt(*, name: str, user: str, signer: Key, account: str, issued_at_s: int) -> str:
    """Return a user's token with the identity only; its rights are those of the account's scope for the signer."""
    nats: dict[str, object] = {"type": "user", "version": 2}
    return _user(nats, name=name, user=user, signer=signer, account=account, at_s=(issued_at_s, None))


def _user(
    nats: dict[str, object], *, name: str, user: str, signer: Key, account: str, at_s: tuple[int, int | None]
) -> str:
    """at_s: issued, and when it expires."""
    issued_at_s, expires_at_s = at_s
    if signer.public != account:
        nats["issuer_account"] = account
    claims: dict[str, object] = {
        "iss": signer.public, "sub": user, "name": name, "iat": issued_at_s, "nats": nats,
    }  # fmt: skip
    if expires_at_s is not None:
        claims["exp"] = expires_at_s
    return sign_claims(claims, signer)


def _scope(scope: Scope) -> dict[str, object]:
    template = _limits(scope.rights, subscriptions_max=UNLIMITED)
    return {"kind": "user_scope", "key": scope.key, "role": scope.role, "template": template}


def _limits(rights: Rights, *, subscriptions_max: int) -> dict[str, object]:
    return {
        "pub": _permission(rights.publish, rights.withheld),
        "sub": _permission(rights.subscribe),
        "subs": subscriptions_max,
        "data": UNLIMITED,
        "payload": UNLIMITED,
    }


def _permission(allowed: Sequence[str], denied: Sequence[str] = ()) -> dict[str, list[str]]:
    if not allowed:
        return {"deny": [">"]}
    return {"allow": list(allowed), "deny": list(denied)} if denied else {"allow": list(allowed)}


def creds_file(token: str, key: Key) -> str:
    """Return the text of a `.creds` file, as NATS clients read it."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"
    )


@dataclass(frozen=True, slots=True)
class ViewSigner:
    """Signing key for dashboard credentials: a key of account VIEW, and the account's public key."""

    key: Key
    account: str

    def dump(self) -> str:
        """Return the text of the signer's file."""
        return json.dumps({"seed": self.key.seed, "account": self.account})

    @classmethod
    def load(cls, text: str) -> "ViewSigner":
        """Parse the text of the signer's file. Raises ValueError if it is not one."""
        fields = json.loads(text)
        return cls(key_of_seed(str(fields["seed"])), str(fields["account"]))


@dataclass(frozen=True, slots=True)
class ViewCredential:
    """Credentials of a dashboard, which may receive replies only below `inbox_prefix`."""

    jwt: str
    seed: str
    inbox_prefix: str
    expires_at_s: int


def mint_view_user(
    signer: ViewSigner,
    *,
    clusters: Sequence[str],
    teams: Sequence[str],
    now_s: int,
    expires_in_s: float,
    entropy: bytes,
) -> ViewCredential:
    """Return a short-lived user of account VIEW that may subscribe to the rows of these teams, and may not publish.

    teams: `*` is every team. entropy: 32 random bytes, from the edge. Raises ValueError if `expires_in_s` is not above
    0 and at most VIEW_EXPIRES_S_MAX, or a team or cluster is not a valid name, since wildcards would widen rights.
    """
    for name in (*clusters, *(team for team in teams if team != EVERY_TEAM)):
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError(f"{name!r} is no name of a team or cluster: lower-case letters, digits and hyphens")
    if not 0 < expires_in_s <= VIEW_EXPIRES_S_MAX:
        raise ValueError(f"expires_in_s is {expires_in_s}: give a time above 0 and at most {VIEW_EXPIRES_S_MAX:.0f}")
    user = new_key(PREFIX_USER, entropy)
    inbox = f"_INBOX.{user.public}"
    expires_at_s = now_s + max(1, round(expires_in_s))
    token = user_jwt(
        view_rights(clusters=clusters, teams=teams, inbox=inbox),
        name="dashboard",
        user=user.public,
        signer=signer.key,
        account=signer.account,
        issued_at_s=now_s,
        expires_at_s=expires_at_s,
        subscriptions_max=VIEW_SUBSCRIPTIONS_MAX,
    )
    return ViewCredential(token, user.seed, inbox, expires_at_s)
