"""Query a running stack and print the answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.bus.clock import SystemTime
from muster.cli import output, queue_tree, tables, trace_tree
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.presentation import chosen
from muster.cli.session import call
from muster.schemas.views import FactView, JobView, NodeView, QueueView

if TYPE_CHECKING:
    from muster.client import Muster

JOB_FACTS_MAX = 10_000  # of one job


def queue(state_dir: Path, form: Output, *, team: str, queue: str, all_phases: bool, limit: int) -> None:
    """List jobs, newest first, and queues."""

    async def ask(muster: "Muster") -> tuple[list[JobView], list[QueueView]]:
        jobs = await muster.list(team=team, queue=queue, live_only=not all_phases, limit=limit)
        return list(jobs), list(await muster.queues(shares=True))

    jobs, known = call(state_dir, ask)
    shown = [one for one in known if not queue or one.name == queue]
    if form is Output.JSON:
        output.emit_json(
            {
                "jobs": [job.model_dump(mode="json") for job in jobs],
                "queues": [one.model_dump(mode="json") for one in shown],
            }
        )
        return
    wide = form is Output.WIDE
    told = tables.job_rows(jobs, now_ns=SystemTime().wall(), wide=wide)
    headings, rows = tables.by_cluster(tables.JOBS_WIDE if wide else tables.JOBS, told, jobs)
    output.table(headings, rows, right=tables.NUMBERS)
    if chosen().csv or not chosen().headers:
        return  # a program reads one table
    print_line()
    _print_queues(shown, wide=wide)


def queues(state_dir: Path, form: Output) -> None:
    """List all queues with their shares."""
    known = call(state_dir, lambda muster: muster.queues(shares=True))
    if output.emitted(known, form):
        return
    _print_queues(known, wide=form is Output.WIDE)


def _print_queues(queues: Sequence[QueueView], *, wide: bool) -> None:
    headings = queue_tree.QUEUES_WIDE if wide else queue_tree.QUEUES
    clusters = sorted({queue.cluster for queue in queues})
    for cluster in clusters or ("",):  # trees of their own: the same names stand in each
        rows = queue_tree.queue_rows((queue for queue in queues if queue.cluster == cluster), wide=wide)
        output.table(headings, rows, right=queue_tree.NUMBERS, title=cluster if len(clusters) > 1 else "")


def job(state_dir: Path, form: Output, job_id: str) -> None:
    """Show one job."""
    found = call(state_dir, lambda muster: muster.get(job_id))
    if output.emitted(found, form):
        return
    output.details(tables.job_pairs(found, now_ns=SystemTime().wall()))


def why(state_dir: Path, form: Output, job_id: str) -> None:
    """Explain the state of a job."""
    answer = call(state_dir, lambda muster: muster.why(job_id))
    if output.emitted(answer, form):
        return
    output.details(tables.why_pairs(answer, now_ns=SystemTime().wall()))


def nodes(state_dir: Path, form: Output, *, reasons: bool) -> None:
    """List all nodes, or only those that are or will be unschedulable."""
    found: list[NodeView] = list(call(state_dir, lambda muster: muster.nodes()))
    shown = [node for node in found if not reasons or not node.usable or node.reasons]
    if output.emitted(shown, form):
        return
    if reasons and (form is Output.TABLE or chosen().csv):
        rows = tables.reason_rows(shown, now_ns=SystemTime().wall())
        output.table(tables.NODE_REASONS, rows, right=tables.NUMBERS)
        return
    wide = form is Output.WIDE
    told = tables.node_rows(shown, wide=wide)
    headings, of_nodes = tables.by_cluster(tables.NODES_WIDE if wide else tables.NODES, told, shown)
    output.table(headings, of_nodes, right=tables.NUMBERS)


def clusters(state_dir: Path, form: Output) -> None:
    """Show all clusters."""
    found = call(state_dir, lambda muster: muster.clusters())
    if output.emitted(found, form):
        return
    for cluster in found:
        output.details(tables.cluster_pairs(cluster))


def quota(state_dir: Path, form: Output) -> None:
    """Show the rate limits of the token."""
    me = call(state_dir, lambda muster: muster.me())
    if output.emitted(me, form):
        return
    who = f"{me.principal} ({me.role.value}{' of ' + ', '.join(me.teams) if me.teams else ''})"
    if not me.limits:
        print_line(f"{who} has no rate limits")
        return
    print_line(who)
    rows = ((one.what, one.team or "-", str(one.per_min), str(one.burst), str(one.left)) for one in me.limits)
    output.table(("LIMIT", "TEAM", "PER_MIN", "AT_ONCE", "LEFT"), rows, right=("PER_MIN", "AT_ONCE", "LEFT"))


def job_trace(state_dir: Path, job_id: str) -> trace_tree.JobTrace:
    """Return the tree of a job's facts. Raises CliError (refused) if there are none."""

    async def ask(muster: "Muster") -> list[FactView]:
        return list(await muster.events(job_id=job_id, limit=JOB_FACTS_MAX))

    facts = call(state_dir, ask)
    if not facts:
        raise refused(f"ID: job {job_id} has no facts; `muster queue --all` lists the jobs")
    return trace_tree.build(job_id, facts)
