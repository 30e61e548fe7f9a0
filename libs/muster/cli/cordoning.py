"""Closing nodes for people, and why nodes are closed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from muster.cli import moments, output
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.schemas.views import NodeReason, NodeView

if TYPE_CHECKING:
    from muster.client import Muster

Ask = Literal["cordon", "drain", "resume"]
REASONS = ("NODE", "WHAT", "BY", "DEVICE", "FROM", "JOBS", "THERE", "REASON")
NUMBERS = ("JOBS",)
_SAID = {"cordon": "cordoned", "drain": "drained", "resume": "resumed"}


def close(state_dir: Path, nodes: Sequence[str], ask: Ask, *, reason: str, cluster: str, form: Output) -> None:
    """Ask it of each node. Raises CliError at the first refusal."""

    async def ask_all(muster: "Muster") -> list[NodeView]:
        method = {"cordon": muster.cordon, "drain": muster.drain, "resume": muster.resume}[ask]
        return [await method(node, reason=reason, cluster=cluster) for node in nodes]

    found = call(state_dir, ask_all)
    if form is Output.JSON:
        output.emit_models(found)
        return
    for node in found:
        print_line(f"{node.name} {told(node, ask)}")


def told(node: NodeView, ask: Ask) -> str:
    """What came of it, in words: how many jobs are there, or why it is still not used."""
    now = {reason.what for reason in node.reasons}
    is_so = not now & set(_SAID.values()) if ask == "resume" else _SAID[ask] in now
    if not is_so:
        return f"{ask} requested"
    if ask != "resume":
        jobs = "1 job" if len(node.jobs) == 1 else f"{len(node.jobs)} jobs"
        return f"{_SAID[ask]}, {jobs} there"
    against = [reason for reason in node.reasons if reason.what != "planned" and not reason.device]
    return f"resumed, but {against[0].what}: {against[0].reason or against[0].request_id}" if against else "resumed"


def reason_rows(nodes: Iterable[NodeView], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Each reason a row; a node that cannot be used and has none, too."""
    for node in nodes:
        for reason in node.reasons or (NodeReason(what="" if node.usable else "closed", reason=node.reason),):
            if not reason.what:
                continue
            becomes = reason.running.value if reason.running is not None else ""
            from_ = moments.when(reason.from_at, now_ns=now_ns) if reason.what == "planned" else ""
            why = reason.reason or reason.request_id
            yield (
                node.name, reason.what, reason.by, reason.device, from_, str(len(node.jobs)), becomes, why,
            )  # fmt: skip
