"""Keys and credentials on disk: keys are created once per state directory, tokens at every start.

A cell's token only identifies the cell: it is signed with a separate key, and the cell's account defines at every start
what that key allows. So permissions also change for tokens that were issued long ago. Every file is 0600 in a directory
of 0700. The account revokes users' tokens issued before this start, so that permissions removed from a declaration are
gone, also for copies of the old file.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from muster.bus import jwt, own_account
from muster.bus.access import VIEW_KEY, AccountName, BusUser
from muster.bus.leaf import Crossing, crossing

VIEW_CONNECTIONS_MAX = 4_096
"""Maximum number of connected dashboards: they share the broker with the logs."""
CELL_CONNECTIONS_MAX = 64
"""Connections of one cell: each of its servers joins each of the center's, twice while a dead link is not noticed."""


MakeKey = Callable[[str, int], jwt.Key]
"""Return the key with this name and prefix, created once."""


@dataclass(frozen=True, slots=True)
class MintedAccess:
    """Access configuration of nats-server."""

    operator: str
    """Token of the operator."""
    system_account: str
    """Public key of the system account."""
    accounts: Mapping[str, str]
    """Tokens of all accounts by public key."""
    log_account: str
    """Public key of the account with the log; a cell's account joins the center's."""


@dataclass(frozen=True, slots=True)
class CellAccount:
    """The account of one cell."""

    cluster: str
    key: jwt.Key
    signer: jwt.Key
    """Key that signs the token of the cell's broker."""
    scope: jwt.Scope
    """Permissions of tokens signed by `signer`."""


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """The account of one credential that works with streams."""

    user: BusUser
    key: jwt.Key


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, atomically."""
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
    """Create missing keys, write `<user>.creds` for every user and the gateway's view signer; remove other creds.

    Raises OSError if the directories cannot be written, nkeys.NkeysError if a key file is invalid.
    """

    def key(name: str, prefix: int) -> jwt.Key:
        path = keys_dir / f"{name}.nk"
        if not path.exists():
            write_private(path, jwt.new_key(prefix, entropy(jwt.SEED_BYTES)).seed)
        return jwt.key_of_seed(path.read_text().strip())

    users = tuple(users)
    operator = key("operator", jwt.PREFIX_OPERATOR)
    names = (name for name in AccountName if name not in (AccountName.CELL, AccountName.OWN))
    shared: dict[AccountName, jwt.Key] = {name: key(f"account-{name}", jwt.PREFIX_ACCOUNT) for name in names}
    view_signer = key("view-signer", jwt.PREFIX_ACCOUNT)
    cells = [_cell(user, key) for user in users if user.cell]
    own = [
        OwnAccount(user, key(f"account-of-{user.name}", jwt.PREFIX_ACCOUNT))
        for user in users
        if user.account is AccountName.OWN
    ]
    account_of = {one.user.name: one.key for one in own}
    written = {credentials_dir / f"{user.name}.creds" for user in users}
    by_cell = {cell.cluster: cell for cell in cells}
    for user in users:
        if user.cell:
            text = _of_cell(user, by_cell[user.cell], key, now_s)
        else:
            account = account_of.get(user.name) or shared[user.account]
            text = _of_user(user, account, key, view=shared[AccountName.VIEW], now_s=now_s)
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
        own=own,
    )
    log = shared[AccountName.LOG].public
    telling = [
        *((one.key.public, own_account.told(one.user.rights)) for one in own),
        *((cell.key.public, crossing(cell.cluster).told) for cell in cells),
    ]
    told = (
        *((shared[spec.name], spec) for spec in specs),
        *((cell.key, cell_spec(cell, log=log)) for cell in cells),
        *((one.key, own_spec(one, log=log, telling=telling, revoked_before_s=now_s - 1)) for one in own),
    )
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
    """Return the account of a cell, with a separate key that signs the broker's token."""
    signer = key(f"scope-{user.name}", jwt.PREFIX_ACCOUNT)
    account = key(f"account-{user.name}", jwt.PREFIX_ACCOUNT)
    return CellAccount(user.cell, account, signer, jwt.Scope(signer.public, user.name, user.rights))


def _of_cell(user: BusUser, cell: CellAccount, key: MakeKey, now_s: int) -> str:
    user_key = key(f"lasting-{user.name}", jwt.PREFIX_USER)
    token = jwt.scoped_user_jwt(
        name=user.name, user=user_key.public, signer=cell.signer, account=cell.key.public, issued_at_s=now_s
    )
    return jwt.creds_file(token, user_key)


def _of_user(user: BusUser, account: jwt.Key, key: MakeKey, *, view: jwt.Key, now_s: int) -> str:
    user_key = key(f"user-{user.name}", jwt.PREFIX_USER)
    rights = own_account.local_rights(user.rights) if user.account is AccountName.OWN else user.rights
    heard = tuple(subject.replace(VIEW_KEY, view.public) for subject in rights.subscribe)
    rights = replace(rights, subscribe=heard)
    token = jwt.user_jwt(
        rights, name=user.name, user=user_key.public, signer=account, account=account.public, issued_at_s=now_s
    )
    return jwt.creds_file(token, user_key)


def account_specs(
    public: Mapping[AccountName, str],
    *,
    view_signer: str,
    revoked_before_s: int,
    cells: Sequence[CellAccount] = (),
    own: Sequence[OwnAccount] = (),
) -> tuple[jwt.AccountSpec, ...]:
    """Return the accounts with their imports and exports.

    Requests come in from QUERY, the live view goes out to VIEW, the subjects of `bus.leaf` pass between LOG and the
    accounts of cells, and each credential's account imports the subjects of its permissions; nothing else passes.
    """
    log = public[AccountName.LOG]
    passing = [(cell, crossing(cell.cluster)) for cell in cells]
    return (
        jwt.AccountSpec(AccountName.SYS, revoked_before_s=revoked_before_s),
        jwt.AccountSpec(
            AccountName.LOG,
            jetstream=True,
            exports=(
                *_exports(asked=own_account.SERVED),
                *({**_service(subject), "response_type": "Stream"} for subject in own_account.SERVED_OFTEN),
                *_once(export for _, one in passing for export in _exports(asked=_served(one), heard=one.tells)),
            ),
            imports=(
                *(
                    wanted
                    for cell, one in passing
                    for wanted in _imports(cell.key.public, asks=one.asks, hears=one.told)
                ),
                *(
                    wanted
                    for one in own
                    for wanted in _imports(
                        one.key.public,
                        asks=own_account.answered(one.user.rights),
                        hears=_but_views(own_account.told(one.user.rights)),
                    )
                ),
            ),
            revoked_before_s=revoked_before_s,
        ),
        jwt.AccountSpec(AccountName.QUERY, imports=_imports(log, asks=("query.>",)), revoked_before_s=revoked_before_s),
        jwt.AccountSpec(
            AccountName.VIEW,
            imports=tuple(
                wanted
                for one in own
                for wanted in _imports(one.key.public, hears=_views(own_account.told(one.user.rights)))
            ),
            signing_keys=(view_signer,),
            limits={"conn": VIEW_CONNECTIONS_MAX},
        ),
    )


def own_spec(
    one: OwnAccount, *, log: str, telling: Sequence[tuple[str, Sequence[str]]], revoked_before_s: int
) -> jwt.AccountSpec:
    """Return the account of one credential: without streams, and with one user.

    telling: by account, the subjects that it exports to subscribers.
    """
    rights = one.user.rights
    asked = (_asked(subject, log=log) for subject in own_account.asked(rights))
    source, to = own_account.MAPPING
    return jwt.AccountSpec(
        AccountName.OWN,
        exports=_exports(asked=own_account.answered(rights), heard=own_account.told(rights)),
        imports=(
            *asked,
            *(
                wanted
                for account, subjects in telling
                if account != one.key.public
                for wanted in _imports(account, hears=_shared(own_account.heard(rights), subjects))
            ),
        ),
        revoked_before_s=revoked_before_s,
        mappings={source: to},
    )


def _shared(heard: Sequence[str], told: Sequence[str]) -> tuple[str, ...]:
    """Return the subjects that are both subscribed to and published."""
    return tuple(wanted for wanted in heard if any(own_account.is_within(wanted, subject) for subject in told))


def _views(told: Sequence[str]) -> tuple[str, ...]:
    """Return the subjects of the live view."""
    return tuple(subject for subject in told if subject.startswith("view."))


def _but_views(told: Sequence[str]) -> tuple[str, ...]:
    """Return the subjects that streams keep."""
    return tuple(subject for subject in told if not subject.startswith("view."))


def _asked(subject: str, *, log: str) -> jwt.Json:
    """Return the import of a requested subject, under its own name where possible."""
    wanted, name = {**_service(subject), "account": log}, own_account.local(subject)
    return wanted if name == subject else {**wanted, "local_subject": own_account.renamed(name)}


def cell_spec(cell: CellAccount, *, log: str) -> jwt.AccountSpec:
    """Return the account that a cell's broker joins: without streams, and with one kind of user."""
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


def _served(one: Crossing) -> tuple[str, ...]:
    """Return the subjects that a cell requests and credentials are not served: exports must not overlap."""
    return tuple(
        subject for subject in one.asked if not any(own_account.is_within(subject, own) for own in own_account.SERVED)
    )


def _once(exports: Iterable[jwt.Json]) -> tuple[jwt.Json, ...]:
    """Export a subject once if several cells import it from LOG."""
    return tuple({str(export["subject"]): export for export in exports}.values())
