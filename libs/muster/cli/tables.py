"""Format views as rows and details. Pure; `now_ns` is an argument."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from muster.cli import moments
from muster.cli.text import SHORT_PHASE, duration, gpus, held_gpus, node_list, place_or_reason, time_in_phase_s
from muster.cli.trace_tree import JOB, JobTrace, Shown, Span, without_repeats
from muster.core.instant import NS_PER_S
from muster.schemas.apiserver import ClusterView
from muster.schemas.queries import WhyAnswer
from muster.schemas.views import FactView, JobView, NodeReason, NodeView

Rows = Iterable[tuple[str, ...]]

JOBS = ("JOBID", "QUEUE", "NAME", "USER", "ST", "TIME", "GPUS", "NODES", "NODELIST(REASON)")
JOBS_WIDE = (*JOBS, "TEAM", "KIND", "PRIO", "TRY", "CLUSTER", "PREEMPTED", "SLICE_ENDS", "PREEMPTED_FOR")
NODES = ("NODE", "STATE", "MODEL", "GPUS", "USED", "CPUS", "JOBS", "REASON")
NODES_WIDE = (*NODES, "MEMORY_MIB", "USED_MIB", "DOMAINS", "GROUP")
NODE_REASONS = ("NODE", "WHAT", "BY", "DEVICE", "FROM", "JOBS", "THERE", "REASON")
LABEL_MAX = 96  # columns of a line of a job's tree before its times
DEPTH_MAX = 12  # a retried job's tree is as deep as its history, a screen is not so wide
NUMBERS = (
    "TIME",
    "GPUS",
    "NODES",
    "USED",
    "CPUS",
    "JOBS",
    "MEMORY_MIB",
    "PRIO",
    "PREEMPTED",
)


class OfCluster(Protocol):
    """A view that belongs to a cluster."""

    @property
    def cluster(self) -> str:
        """Return the name of the cluster, "" for none."""
        ...


def by_cluster(
    headings: Sequence[str], rows: Iterable[Sequence[str]], shown: Sequence[OfCluster]
) -> tuple[tuple[str, ...], Iterable[tuple[str, ...]]]:
    """Add a column CLUSTER in front if there are several. rows: one per view of `shown`."""
    if len({one.cluster for one in shown if one.cluster}) < 2:
        return tuple(headings), map(tuple, rows)
    return ("CLUSTER", *headings), ((one.cluster or "-", *row) for one, row in zip(shown, rows, strict=True))


def job_rows(jobs: Iterable[JobView], *, now_ns: int, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """Return a row per job, as squeue prints them."""
    for job in jobs:
        row = (
            job.id, job.queue, job.name, job.principal, SHORT_PHASE[job.phase], duration(time_in_phase_s(job, now_ns)),
            held_gpus(job), str(len(job.nodes)), place_or_reason(job, now_ns=now_ns),
        )  # fmt: skip
        slice_ends = moments.clock(job.slice_ends_at, now_ns=now_ns) if job.slice_ends_at else ""
        more = (
            job.team, job.kind, str(job.priority), str(job.attempt), job.cluster, str(job.preemptions), slice_ends,
            job.made_way_for,
        )  # fmt: skip
        yield (*row, *more) if wide else row


def node_state(node: NodeView) -> str:
    """Return the state as sinfo names it: down, drain, idle, mix, alloc."""
    if node.lost:
        return "down"
    if not node.usable:
        return "drain"
    if node.gpu_milli_held == 0 and node.cpu_milli_held == 0:
        return "idle"
    return "alloc" if node.gpus and node.gpu_milli_held >= node.gpus * 1000 else "mix"


def node_rows(nodes: Iterable[NodeView], *, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """Return a row per node."""
    for node in nodes:
        row = (
            node.name, node_state(node), node.gpu_model, str(node.gpus), gpus(node.gpu_milli_held),
            f"{node.cpu_milli_held / 1000:g}/{node.cpu_milli / 1000:g}", str(len(node.jobs)), node.reason,
        )  # fmt: skip
        domains = ",".join(f"{level}={domain}" for level, domain in node.domains)
        yield (*row, str(node.memory_mib), str(node.memory_mib_held), domains, node.group) if wide else row


def reason_rows(nodes: Iterable[NodeView], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per reason, and one for an unschedulable node without a reason."""
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


def cluster_pairs(cluster: ClusterView) -> Sequence[tuple[str, str]]:
    """Return the details of a cluster."""
    total, free = cluster.gpu_milli_total, cluster.gpu_milli_free
    return (
        ("cluster", cluster.name),
        ("state", cluster.state),
        ("backend", f"{cluster.backend} {cluster.version}".strip()),
        ("nodes", str(cluster.nodes)),
        ("gpus", f"{gpus(free)} of {gpus(total)} free"),
        ("jobs", f"{cluster.jobs_running} running, {cluster.jobs_queued} queued"),
        ("gpus picked by", "the kubelet" if cluster.devices == "kubelet" else "the scheduler"),
        ("parts of a gpu", cluster.sharing),
        ("apis", ", ".join(cluster.served)),
        ("lacking", "; ".join(cluster.lacking)),
    )


def job_pairs(job: JobView, *, now_ns: int) -> Sequence[tuple[str, str]]:
    """Return the details of a job."""
    times = [("placed", job.placed_at), ("running", job.running_at), ("ended", job.ended_at)]
    ahead = [
        ("reserved start", job.reserved_at),
        ("slice ends", job.slice_ends_at),
        ("checkpointed", job.checkpointed_at),
    ]
    return (
        ("job", job.id),
        ("name", job.name),
        ("phase", job.phase.value),
        ("reason", job.reason),
        ("detail", job.detail),
        ("team", job.team),
        ("user", job.principal),
        ("queue", job.queue),
        ("kind", job.kind.value),
        ("priority", str(job.priority)),
        ("gpus", held_gpus(job)),
        ("replicas", _replicas(job)),
        ("preemptible", "" if job.preemptible else "no"),
        ("preemptions", str(job.preemptions) if job.preemptions else ""),
        *run_pairs(job),
        ("preempted for", job.made_way_for),
        ("object", job.origin),
        *((name, moments.when(at, now_ns=now_ns)) for name, at in ahead if at),
        ("ran before", duration(job.ran_s) if job.ran_s and not job.phase.is_terminal else ""),
        ("cluster", job.cluster),
        ("attempt", str(job.attempt)),
        ("nodes", node_list(job.nodes, width=400)),
        ("time", duration(time_in_phase_s(job, now_ns))),
        *((name, f"{duration((at - job.submitted_at) / NS_PER_S)} after submission") for name, at in times if at),
        ("exit code", str(job.exit_code) if job.phase.is_terminal else ""),
        ("trace", job.trace.split("-")[1] if job.trace.count("-") == 3 else job.trace),
    )


def run_pairs(job: JobView) -> Sequence[tuple[str, str]]:
    """Return the failures of a job, by the job itself and by the infrastructure, and the lost work."""
    lost = f"{duration(job.lost_s)} in all, {duration(job.lost_last_s)} by the last run" if job.lost_s else ""
    failed = f"{job.preflight_failures} in a row" if job.preflight_failures else ""
    own = ""
    if job.retries_used:
        own = f"{job.retries_used} retried, {job.failures_in_row} in a row without progress (limit {job.retries})"
    return (
        ("own failures", own),
        ("node failures", f"{job.node_losses}, not counted as retries" if job.node_losses else ""),
        ("pre-flights failed", failed),
        ("not placed on", node_list(job.excluded, width=400)),
        ("work lost", lost),
    )


def _replicas(job: JobView) -> str:
    """Return the number of replicas; for an elastic job also the current and minimum ones."""
    if not job.min_replicas or job.min_replicas == job.replicas:
        return str(job.replicas)
    has = f"{len(job.slots)} of " if job.slots and not job.phase.is_terminal else ""
    return f"{has}{job.replicas}, at least {job.min_replicas}"


def expected_start(at_ns: int, basis: str, *, now_ns: int) -> str:
    """Return the latest start of a job and the basis of the estimate; empty if unknown."""
    if not at_ns:
        return basis
    return f"{moments.when(at_ns, now_ns=now_ns)}{': ' if basis else ''}{basis}"


def why_pairs(answer: WhyAnswer, *, now_ns: int) -> Sequence[tuple[str, str]]:
    """Return the explanation of a job's state, the hint, and the expected start."""
    job = answer.job
    return (
        ("job", job.id if job else ""),
        ("phase", job.phase.value if job else ""),
        ("queue", job.queue if job else ""),
        ("position", f"{answer.position} of {answer.waiting} waiting" if answer.position else ""),
        ("reason", answer.reason),
        ("detail", answer.detail),
        ("hint", answer.cure),
        ("expected start", expected_start(answer.expected_start_at, answer.expected_basis, now_ns=now_ns)),
        ("reserved start", moments.when(job.reserved_at, now_ns=now_ns) if job and job.reserved_at else ""),
        ("nodes", node_list(job.nodes) if job else ""),
        *(run_pairs(job) if job else ()),
    )


def fact_line(fact: FactView) -> str:
    """Return a fact in one line: time of day (UTC), sequence, writer, subject, name, body."""
    second, rest = divmod(fact.time, NS_PER_S)
    hour, minute = divmod(second % 86_400 // 60, 60)
    clock = f"{hour:02}:{minute:02}:{second % 60:02}.{rest // 1_000_000:03}"
    body = fact.body if len(fact.body) <= 160 else f"{fact.body[:159]}…"
    where = f"{fact.stream}:{fact.seq}"
    about = f"{fact.kind:<6} {fact.subject_id}"
    return f"{clock} {where:<16} {fact.writer:<10} {about:<33} {fact.name:<16} {body}"


def trace_lines(trace: JobTrace, *, whole: bool = False) -> Iterable[str]:
    """Return the tree as lines; `*` marks a fact without a cause among the facts of the job.

    whole: include devices that were attached in the same way as another one.
    """
    yield f"job {trace.job_id}  trace {trace.trace_id or '-'}"
    yield f"services: {' > '.join(trace.services)}"
    shown = Shown(trace.spans, {}) if whole else without_repeats(trace.spans)
    labels = list(_labels(shown))
    width = min(max((len(label) for label in labels), default=0), LABEL_MAX)
    for span, label in zip(shown.spans, labels, strict=True):
        times = f"+{span.after_parent_s:>9.3f}s  at {span.since_start_s:>9.3f}s"
        yield f"{label:<{width}} {times}  {','.join(span.streams)}"
    state = "from submission to the end" if trace.finished else "so far; the job has not ended"
    yield f"total {duration(trace.total_s)} {state}"


def _labels(shown: Shown) -> Iterable[str]:
    """Yield service and fact as a tree; facts of other kinds than jobs with their subject."""
    last = _last_of_parent(shown.spans)
    open_at: dict[int, bool] = {}
    for span in shown.spans:
        depth = min(span.depth, DEPTH_MAX)
        open_at[depth] = span.id not in last
        stem = "".join("│  " if open_at.get(level) else "   " for level in range(1, depth))
        branch = ("└─ " if span.id in last else "├─ ") if depth else ""
        about = "" if span.kind == JOB else f" {span.kind} {span.subject_id}"
        about += f" (and {count} like it)" if (count := shown.alike.get(span.id, 0)) else ""
        yield f"{stem}{branch}{span.service} {span.name}{about}{'' if span.caused or not span.parent else ' *'}"


def _last_of_parent(spans: Sequence[Span]) -> frozenset[str]:
    return frozenset({span.parent: span.id for span in spans}.values())
