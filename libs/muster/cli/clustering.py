"""Print and change clusters and routing rules."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import CliError, ExitCode, usage
from muster.cli.jobfile import load
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.cli.session import call
from muster.schemas.members import FederationView, MemberView, RoutesView
from muster.schemas.routing import Choice, RoutingPolicy, RoutingRule

CLUSTERS = ("CLUSTER", "STATE", "JOBS", "RUN", "WAIT", "NODES", "GPUS", "FREE", "HEARD", "TO", "REASON")
WAITING = ("TEAM", "RULE", "GPUS", "JOBS", "OLDEST", "WHY", "DETAIL")
RULES = ("RULE", "JOBS", "CLUSTERS")
TEAMS = ("TEAM", "GPUS", "WEIGHT")
NUMBERS = ("JOBS", "RUN", "WAIT", "NODES", "GPUS", "FREE", "WEIGHT")
ANY = "any"


def show(state_dir: Path, form: Output) -> None:
    """List all clusters, and the jobs without a cluster."""
    found = call(state_dir, lambda muster: muster.federation())
    if output.emitted(found, form):
        return
    now_ns = SystemTime().wall()
    output.table(CLUSTERS, (_cluster_row(one, now_ns=now_ns) for one in found.clusters), right=NUMBERS)
    if found.waiting:
        print_line()
        output.table(WAITING, waiting_rows(found, now_ns=now_ns), right=("GPUS", "JOBS"))


def drain(state_dir: Path, cluster: str, *, to: Sequence[str], reason: str, form: Output) -> None:
    """Send the request and print its progress."""
    _told(call(state_dir, lambda muster: muster.drain_cluster(cluster, to=to, reason=reason)), form)


def resume(state_dir: Path, cluster: str, *, reason: str, form: Output) -> None:
    """Send the request and print its progress."""
    _told(call(state_dir, lambda muster: muster.resume_cluster(cluster, reason=reason)), form)


def show_routes(state_dir: Path, form: Output) -> None:
    """Print the current routing rules and team limits."""
    found = call(state_dir, lambda muster: muster.routes())
    if form is Output.JSON:
        output.emit_json(found.policy.model_dump(mode="json", exclude_defaults=True))
        return
    output.table(RULES, rule_rows(found))
    if found.policy.teams:
        print_line()
        output.table(TEAMS, team_rows(found.policy), right=NUMBERS)
    print_note(f"version {found.version}" + (f", by {found.by}" if found.by else ", from the settings"))


def set_routes(state_dir: Path, file: Path, *, based_on: int) -> None:
    """Set the routing rules of a file."""
    policy = policy_of(file)
    found = call(state_dir, lambda muster: muster.set_routes(policy, based_on=based_on))
    print_line(f"version {found.version} set" if found is not None else "requested")


def check_routes(state_dir: Path, file: Path) -> None:
    """Validate a file and print a summary. Raises CliError that names the field."""
    policy = policy_of(file)
    try:
        known = [one.name for one in call(state_dir, lambda muster: muster.federation()).clusters]
    except CliError as error:
        if error.code is not ExitCode.UNREACHABLE:
            raise
        print_note("no stack is reachable: the names of clusters were not checked")
    else:
        refuse_unknown(file, policy, known)
    clusters = ", ".join(policy.clusters) or "the first of the settings that takes jobs"
    print_line(f"{len(policy.rules)} rules, {len(policy.teams)} teams; jobs go to {clusters}")


def refuse_unknown(file: Path, policy: RoutingPolicy, known: Sequence[str]) -> None:
    """Raise CliError for the first cluster of a rule that is not in the federation."""
    for at, rule in enumerate(policy.rules):
        for place, choice in enumerate(rule.clusters):
            if choice.cluster not in known:
                where = f"{file}: rules.{at}.clusters.{place}.cluster"
                raise usage(
                    f"{where}: {choice.cluster!r} is not a cluster of the federation; use one of {', '.join(known)}"
                )


def reroute(state_dir: Path, job: str, *, to: str, reason: str, form: Output) -> None:
    """Request the move of a job; the log records its result."""
    found = call(state_dir, lambda muster: muster.reroute(job, to=to, reason=reason))
    if output.emitted(found, form):
        return
    print_line(f"{job} reroute requested, it is {f'on {found.cluster}' if found.cluster else 'on no cluster'}")


def policy_of(file: Path) -> RoutingPolicy:
    """Return the routing policy of a file. Raises CliError that names the file and the field."""
    found = load(file, RoutingPolicy)
    if len(found) > 1:
        raise usage(f"{file}: holds {len(found)} policies; write one")
    return found[0]


def waiting_rows(found: FederationView, *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per job that waits for a cluster, oldest first."""
    for one in found.waiting:
        oldest = _ago(one.oldest_at, now_ns)
        yield one.team, one.rule or ANY, f"{one.gpus:g}", str(one.jobs), oldest, one.reason, one.detail


def rule_rows(found: RoutesView) -> Iterable[tuple[str, ...]]:
    """Return a row per rule, or the default rule if there is none."""
    if not found.policy.rules:
        yield (ANY, "all", "the first of the settings that takes jobs")
    for rule in found.policy.rules:
        clusters = " > ".join(_choice(choice) for choice in rule.clusters)
        yield rule.name, conditions(rule), f"{clusters} > wait" if rule.waits else clusters


def team_rows(policy: RoutingPolicy) -> Iterable[tuple[str, ...]]:
    """Return a row per team with a limit or a weight."""
    for one in policy.teams:
        yield one.team, "-" if one.gpus is None else f"{one.gpus:g}", f"{one.weight:g}"


def conditions(rule: RoutingRule) -> str:
    """Return a description of the jobs that a rule matches."""
    said = [
        f"{name} {', '.join(values)}"
        for name, values in (
            ("team", rule.teams),
            ("user", rule.users),
            ("kind", tuple(kind.value for kind in rule.kinds)),
            ("label", tuple(f"{name}={value}" for name, value in rule.labels.items())),
            ("model", rule.models),
        )
        if values
    ]
    if rule.gpus_min:
        said.append(f"at least {rule.gpus_min:g} GPUs")
    if rule.gpus_max is not None:
        said.append(f"at most {rule.gpus_max:g} GPUs")
    return "; ".join(said) or "all"


def _choice(choice: Choice) -> str:
    until = []
    if choice.queue_max is not None:
        until.append(f"{choice.queue_max} wait")
    if choice.expected_start_s_max is not None:
        until.append(f"start in {moments.long(choice.expected_start_s_max)}")
    return f"{choice.cluster} (until {' or '.join(until)})" if until else choice.cluster


def _cluster_row(one: MemberView, *, now_ns: int) -> tuple[str, ...]:
    heard = _ago(one.heard_at, now_ns) if one.lost_after_s else "-"
    return (
        one.name, one.state.value, str(one.jobs), str(one.jobs_running), str(one.jobs_queued), str(one.nodes),
        f"{one.gpus_total:g}", f"{one.gpus_free:g}", heard, " > ".join(one.to), one.reason,
    )  # fmt: skip


def _ago(at_ns: int, now_ns: int) -> str:
    return moments.distance(at_ns, now_ns=now_ns) if at_ns else "never"


def _told(found: MemberView, form: Output) -> None:
    if output.emitted(found, form):
        return
    jobs = "1 job" if found.jobs == 1 else f"{found.jobs} jobs"
    print_line(f"{found.name} {found.state.value}, {jobs} there")
