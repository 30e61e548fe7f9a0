"""Keys and credentials on disk: keys are made once per state directory, tokens anew at every start.

A lasting user's token says who it is alone: it is signed with a key of its own, and the account says at every start
what that key stands for. So rights change also for who was given the token long ago.

Every file is 0600 in a directory of 0700. A user's token issued before this start is revoked by its account, so that
rights which a declaration gave up are gone, also for who kept the old file.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.bus import jwt
from muster.bus.access import AccountName, BusUser

VIEW_CONNECTIONS_MAX = 4_096
"""Dashboards at a time: they share the broker with the logs."""


@dataclass(frozen=True, slots=True)
class MintedAccess:
    """What nats-server is told: the operator, the system account, and every account's token by its public key.

    log_account: public key of the account with the log; a cell's is joined to the centre's.
    """

    operator: str
    system_account: str
    accounts: Mapping[str, str]
    log_account: str


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def mint_access(
    *,
    keys_dir: Path,
    credentials_dir: Path,
    users: Iterable[BusUser],
    now_s: int,
    entropy: Callable[[int], bytes] = os.urandom,
) -> MintedAccess:
    """Make missing keys, write `<user>.creds` for every user and the gateway's view signer; remove others' creds.

    Raises OSError if the directories cannot be written, nkeys.NkeysError if a key file holds no key.
    """

    def key(name: str, prefix: int) -> jwt.Key:
        path = keys_dir / f"{name}.nk"
        if not path.exists():
            write_private(path, jwt.new_key(prefix, entropy(jwt.SEED_BYTES)).seed)
        return jwt.key_of_seed(path.read_text().strip())

    operator = key("operator", jwt.PREFIX_OPERATOR)
    accounts = {name: key(f"account-{name}", jwt.PREFIX_ACCOUNT) for name in AccountName}
    view_signer = key("view-signer", jwt.PREFIX_ACCOUNT)
    written = set()
    scopes: list[jwt.Scope] = []
    for user in users:
        account = accounts[user.account]
        if user.lasting:
            user_key, signer_key = key(f"lasting-{user.name}", jwt.PREFIX_USER), _scope_key(key, user)
            scopes.append(jwt.Scope(signer_key.public, user.name, user.rights))
            token = jwt.scoped_user_jwt(
                name=user.name, user=user_key.public, signer=signer_key, account=account.public, issued_at_s=now_s
            )
        else:
            user_key = key(f"user-{user.name}", jwt.PREFIX_USER)
            token = jwt.user_jwt(
                user.rights,
                name=user.name,
                user=user_key.public,
                signer=account,
                account=account.public,
                issued_at_s=now_s,
            )
        path = credentials_dir / f"{user.name}.creds"
        write_private(path, jwt.creds_file(token, user_key))
        written.add(path)
    for path in set(credentials_dir.glob("*.creds")) - written:
        path.unlink()
    signer = jwt.ViewSigner(view_signer, accounts[AccountName.VIEW].public)
    write_private(credentials_dir / jwt.VIEW_SIGNER_FILE, signer.dump())
    tokens = {
        accounts[spec.name].public: jwt.account_jwt(
            spec, account=accounts[spec.name], operator=operator, issued_at_s=now_s
        )
        for spec in account_specs(
            {name: account.public for name, account in accounts.items()},
            view_signer=view_signer.public,
            revoked_before_s=now_s - 1,
            revoked=_revoked(keys_dir) if scopes else (),
            scopes=tuple(scopes),
        )
    }
    return MintedAccess(
        operator=jwt.operator_jwt(operator, issued_at_s=now_s),
        system_account=accounts[AccountName.SYS].public,
        accounts=tokens,
        log_account=accounts[AccountName.LOG].public,
    )


def _scope_key(key: Callable[[str, int], jwt.Key], user: BusUser) -> jwt.Key:
    """What signs for a lasting user. Raises ValueError if it is of another account than LOG."""
    if user.account is not AccountName.LOG:
        raise ValueError(f"user {user.name}: lasts, so it must be of account {AccountName.LOG}, not {user.account}")
    return key(f"scope-{user.name}", jwt.PREFIX_ACCOUNT)


def _revoked(keys_dir: Path) -> tuple[str, ...]:
    """Every user whose older tokens are void, one by one: `all` would be the lasting ones, too."""
    return tuple(jwt.key_of_seed(path.read_text().strip()).public for path in sorted(keys_dir.glob("user-*.nk")))


def account_specs(
    public: Mapping[AccountName, str],
    *,
    view_signer: str,
    revoked_before_s: int,
    revoked: tuple[str, ...] = (),
    scopes: tuple[jwt.Scope, ...] = (),
) -> tuple[jwt.AccountSpec, ...]:
    """How the accounts are joined: questions come in from QUERY, the live view goes out to VIEW, nothing else.

    revoked: users of LOG whose older tokens are void; none: all. scopes: of LOG.
    """
    log = public[AccountName.LOG]
    return (
        jwt.AccountSpec(AccountName.SYS),
        jwt.AccountSpec(
            AccountName.LOG,
            jetstream=True,
            exports=(
                {"name": "query", "subject": "query.>", "type": "service", "response_type": "Singleton"},
                {"name": "view", "subject": "view.>", "type": "stream"},
            ),
            scopes=scopes,
            revoked_before_s=revoked_before_s,
            revoked=revoked,
        ),
        jwt.AccountSpec(
            AccountName.QUERY,
            imports=({"name": "query", "subject": "query.>", "type": "service", "account": log},),
            revoked_before_s=revoked_before_s,
        ),
        jwt.AccountSpec(
            AccountName.VIEW,
            imports=({"name": "view", "subject": "view.>", "type": "stream", "account": log},),
            signing_keys=(view_signer,),
            limits={"conn": VIEW_CONNECTIONS_MAX},
        ),
    )
