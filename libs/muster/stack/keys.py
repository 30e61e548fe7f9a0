"""Keys and credentials on disk: keys are made once per state directory, tokens anew at every start.

A cell's token says who it is alone: it is signed with a key of its own, and the cell's account says at every start
what that key stands for. So rights change also for who was given the token long ago.

Every file is 0600 in a directory of 0700. A user's token issued before this start is revoked by its account, so that
rights which a declaration gave up are gone, also for who kept the old file.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.bus import jwt
from muster.bus.access import AccountName, BusUser
from muster.bus.leaf import crossing

VIEW_CONNECTIONS_MAX = 4_096
"""Dashboards at a time: they share the broker with the logs."""
CELL_CONNECTIONS_MAX = 64
"""Of one cell: each of its servers joins each of the centre's once, and once more while a dead link is not noticed."""


MakeKey = Callable[[str, int], jwt.Key]
"""The key of this name and sort, made once."""


@dataclass(frozen=True, slots=True)
class MintedAccess:
    """What nats-server is told: the operator, the system account, and every account's token by its public key.

    log_account: public key of the account with the log; a cell's is joined to the centre's.
    """

    operator: str
    system_account: str
    accounts: Mapping[str, str]
    log_account: str


@dataclass(frozen=True, slots=True)
class CellAccount:
    """The account of one cell. scope: what the key stands for that signs for its broker."""

    cluster: str
    key: jwt.Key
    signer: jwt.Key
    scope: jwt.Scope


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

    users = tuple(users)
    operator = key("operator", jwt.PREFIX_OPERATOR)
    names = (name for name in AccountName if name is not AccountName.CELL)
    shared: dict[AccountName, jwt.Key] = {name: key(f"account-{name}", jwt.PREFIX_ACCOUNT) for name in names}
    view_signer = key("view-signer", jwt.PREFIX_ACCOUNT)
    cells = [_cell(user, key) for user in users if user.cell]
    written = {credentials_dir / f"{user.name}.creds" for user in users}
    by_cell = {cell.cluster: cell for cell in cells}
    for user in users:
        text = _of_cell(user, by_cell[user.cell], key, now_s) if user.cell else _of_user(user, shared, key, now_s)
        write_private(credentials_dir / f"{user.name}.creds", text)
    for path in set(credentials_dir.glob("*.creds")) - written:
        path.unlink()
    view = jwt.ViewSigner(view_signer, shared[AccountName.VIEW].public)
    write_private(credentials_dir / jwt.VIEW_SIGNER_FILE, view.dump())
    specs = account_specs(
        {name: account.public for name, account in shared.items()},
        view_signer=view_signer.public,
        revoked_before_s=now_s - 1,
        cells=cells,
    )
    log = shared[AccountName.LOG].public
    told = (*((shared[spec.name], spec) for spec in specs), *((cell.key, cell_spec(cell, log=log)) for cell in cells))
    return MintedAccess(
        operator=jwt.operator_jwt(operator, issued_at_s=now_s),
        system_account=shared[AccountName.SYS].public,
        accounts={
            account.public: jwt.account_jwt(spec, account=account, operator=operator, issued_at_s=now_s)
            for account, spec in told
        },
        log_account=log,
    )


def _cell(user: BusUser, key: MakeKey) -> CellAccount:
    """What signs for the cell's broker is a key of its own."""
    signer = key(f"scope-{user.name}", jwt.PREFIX_ACCOUNT)
    account = key(f"account-{user.name}", jwt.PREFIX_ACCOUNT)
    return CellAccount(user.cell, account, signer, jwt.Scope(signer.public, user.name, user.rights))


def _of_cell(user: BusUser, cell: CellAccount, key: MakeKey, now_s: int) -> str:
    user_key = key(f"lasting-{user.name}", jwt.PREFIX_USER)
    token = jwt.scoped_user_jwt(
        name=user.name, user=user_key.public, signer=cell.signer, account=cell.key.public, issued_at_s=now_s
    )
    return jwt.creds_file(token, user_key)


def _of_user(user: BusUser, shared: Mapping[AccountName, jwt.Key], key: MakeKey, now_s: int) -> str:
    user_key, account = key(f"user-{user.name}", jwt.PREFIX_USER), shared[user.account]
    token = jwt.user_jwt(
        user.rights, name=user.name, user=user_key.public, signer=account, account=account.public, issued_at_s=now_s
    )
    return jwt.creds_file(token, user_key)


def account_specs(
    public: Mapping[AccountName, str], *, view_signer: str, revoked_before_s: int, cells: Sequence[CellAccount] = ()
) -> tuple[jwt.AccountSpec, ...]:
    """How the accounts are joined: questions come in from QUERY, the live view goes out to VIEW, and what `bus.leaf`
    lists passes between LOG and the accounts of cells; nothing else.
    """
    log = public[AccountName.LOG]
    passing = [(cell, crossing(cell.cluster)) for cell in cells]
    return (
        jwt.AccountSpec(AccountName.SYS),
        jwt.AccountSpec(
            AccountName.LOG,
            jetstream=True,
            exports=(
                _service("query.>"),
                _stream("view.>"),
                *_once(export for _, one in passing for export in _exports(asked=one.asked, heard=one.tells)),
            ),
            imports=tuple(
                wanted for cell, one in passing for wanted in _imports(cell.key.public, asks=one.asks, hears=one.told)
            ),
            revoked_before_s=revoked_before_s,
        ),
        jwt.AccountSpec(AccountName.QUERY, imports=_imports(log, asks=("query.>",)), revoked_before_s=revoked_before_s),
        jwt.AccountSpec(
            AccountName.VIEW,
            imports=_imports(log, hears=("view.>",)),
            signing_keys=(view_signer,),
            limits={"conn": VIEW_CONNECTIONS_MAX},
        ),
    )


def cell_spec(cell: CellAccount, *, log: str) -> jwt.AccountSpec:
    """The account that a cell's broker joins: it has no streams, and one sort of user."""
    one = crossing(cell.cluster)
    return jwt.AccountSpec(
        AccountName.CELL,
        exports=_exports(asked=one.asks, heard=one.told),
        imports=_imports(log, asks=one.asked, hears=one.tells),
        scopes=(cell.scope,),
        limits={"conn": 0, "leaf": CELL_CONNECTIONS_MAX},
    )


def _exports(*, asked: Iterable[str] = (), heard: Iterable[str] = ()) -> tuple[jwt.Json, ...]:
    return (*map(_service, asked), *map(_stream, heard))


def _imports(account: str, *, asks: Iterable[str] = (), hears: Iterable[str] = ()) -> tuple[jwt.Json, ...]:
    return tuple({**export, "account": account} for export in _exports(asked=asks, heard=hears))


def _service(subject: str) -> jwt.Json:
    return {"name": subject, "subject": subject, "type": "service"}


def _stream(subject: str) -> jwt.Json:
    return {"name": subject, "subject": subject, "type": "stream"}


def _once(exports: Iterable[jwt.Json]) -> tuple[jwt.Json, ...]:
    """What several cells take from LOG is exported once."""
    return tuple({str(export["subject"]): export for export in exports}.values())
