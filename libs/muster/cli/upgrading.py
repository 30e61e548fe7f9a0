"""Build upgrade campaigns from options, and print their progress."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import usage
from muster.cli.jobfile import sentence
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.cli.upgrade_commands import Wanted
from muster.schemas.campaigns import CampaignPreview, CampaignView, Course, TurnView
from muster.schemas.facts.upgrade import CampaignSpec, Step

Ask = Literal["pause", "resume", "abort"]
CAMPAIGNS = ("CAMPAIGN", "WHAT", "STATE", "DONE", "OPEN", "FAILED", "WAIT", "NEXT", "ENDS", "LOST_GPU_H")
CAMPAIGNS_WIDE = (*CAMPAIGNS, "OUT_OF_USE", "BY", "CLUSTER", "REASON")
NODES = ("NODE", "STEP", "TURN", "JOB", "DETAIL")
COURSES = ("WAY", "ENDS", "TAKES", "KILLED", "MOVED", "LOST_GPU_H", "IDLE", "DONE_AGAIN")
RIGHT = frozenset(
    {"DONE", "OPEN", "FAILED", "WAIT", "LOST_GPU_H", "KILLED", "MOVED", "IDLE", "DONE_AGAIN", "OUT_OF_USE"}
)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(r"(?:(?P<days>[A-Za-z,-]+)\s+)?(?P<from>\d{1,2}:\d{2})-(?P<to>\d{1,2}:\d{2})")
_OPEN = (Step.CORDONED, Step.WAITING, Step.DRAINED, Step.UPGRADING, Step.VALIDATING, Step.ROLLING_BACK)
_KEYS = {"node": "nodes", "group": "groups", "model": "models"}


def spec_of(wanted: Wanted, *, reason: str = "") -> CampaignSpec:
    """Return the campaign of the options. Raises CliError that names the option."""
    component, _, version = wanted.component.partition("=")
    try:
        return CampaignSpec.model_validate(
            {
                "name": wanted.name or _name(component, version),
                "component": component,
                "version": version,
                "command": tuple(shlex.split(wanted.run)),
                "select": _selection(wanted.select or ()),
                "max_unavailable": wanted.max_unavailable,
                "parallel": wanted.parallel,
                "per_rack": wanted.per_rack or None,
                "per_group": wanted.per_group or None,
                "windows": [window_of(text) for text in wanted.window or ()],
                "failures_max": wanted.failures,
                "running": "move" if wanted.move else "finish",
                "suite": wanted.suite,
                "takes_s": moments.length_s(wanted.takes, option="--takes"),
                "action_limit_s": moments.length_s(wanted.limit, option="--limit"),
                "roll_back": wanted.roll_back,
                "starts_at": moments.moment_ns(wanted.starts, option="--starts") if wanted.starts else 0,
                "reason": reason,
            }
        )
    except ValidationError as error:
        raise usage(sentence(error)) from error


def window_of(text: str) -> dict[str, object]:
    """Parse a window: `Mon-Fri 22:00-06:00`, `Sat,Sun 00:00-24:00`, `01:00-05:00`. Raises CliError."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise usage(
            f"--window: {text!r} is not a maintenance window; write for example 'Mon-Fri 22:00-06:00' or '01:00-05:00'"
        )
    return {
        "days": tuple(dict.fromkeys(_days(found["days"] or "", text))),
        "from_min": _minute(found["from"], text),
        "to_min": _minute(found["to"], text),
    }


def start(state_dir: Path, wanted: Wanted, *, reason: str, cluster: str) -> None:
    """Request the start of a campaign. Raises CliError."""
    spec = spec_of(wanted, reason=reason)
    begun = call(state_dir, lambda muster: muster.start_campaign(spec, cluster=cluster))
    if begun is None:
        print_line(f"{spec.name}: requested; the upgrader has not answered yet")
        return
    ends = moments.when(begun.ends_at, now_ns=SystemTime().wall()) if begun.ends_at else "at an unknown time"
    print_line(f"{spec.name}: started, {sum(begun.steps.values())} nodes, ends {ends}")


def plan(state_dir: Path, wanted: Wanted, *, cluster: str, form: Output) -> None:
    """Print the preview of a campaign. Raises CliError."""
    spec = spec_of(wanted)
    found = call(state_dir, lambda muster: muster.preview_campaign(spec, cluster=cluster))
    if output.emitted(found, form):
        return
    now_ns = SystemTime().wall()
    print_line(told(found))
    output.table(COURSES, course_rows(found.courses, begins_ns=found.at, now_ns=now_ns), right=RIGHT)
    if form is Output.WIDE:
        output.table(NODES, turn_rows(found.turns, now_ns=now_ns))


def status(state_dir: Path, name: str, *, cluster: str, form: Output) -> None:
    """Print the state of campaigns. Raises CliError."""
    if name:
        one = call(state_dir, lambda muster: muster.campaign(name, cluster=cluster))
        found = [one]
    else:
        found = list(call(state_dir, lambda muster: muster.campaigns(cluster=cluster)))
    if form is Output.JSON:
        if name:
            output.emit_model(found[0])
        else:
            output.emit_models(found)
        return
    now_ns, wide = SystemTime().wall(), form is Output.WIDE
    output.table(CAMPAIGNS_WIDE if wide else CAMPAIGNS, campaign_rows(found, now_ns=now_ns, wide=wide), right=RIGHT)
    if name and found[0].nodes:
        output.table(NODES, turn_rows(found[0].nodes, now_ns=now_ns))


def change(state_dir: Path, name: str, ask: Ask, *, reason: str, cluster: str) -> None:
    """Request a change of a campaign. Raises CliError."""
    if ask == "pause":
        found = call(state_dir, lambda muster: muster.pause_campaign(name, reason=reason, cluster=cluster))
    elif ask == "resume":
        found = call(state_dir, lambda muster: muster.resume_campaign(name, reason=reason, cluster=cluster))
    else:
        found = call(state_dir, lambda muster: muster.abort_campaign(name, reason=reason, cluster=cluster))
    print_line(f"{name}: {found.state}" + (f", {found.reason}" if found.reason else ""))


def told(preview: CampaignPreview) -> str:
    """Return a summary of the nodes."""
    parts = [f"{preview.nodes} nodes"]
    if preview.at_version:
        parts.append(f"{preview.at_version} have the version already")
    if preview.without_turn:
        parts.append(f"{preview.without_turn} cannot be taken now")
    return ", ".join(parts)


def course_rows(courses: Iterable[Course], *, begins_ns: int, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per method."""
    for course in courses:
        yield (
            course.way,
            moments.clock(course.ends_at, now_ns=now_ns) if course.ends_at else "never",
            moments.long((course.ends_at - begins_ns) / 1e9) if course.ends_at else "-",
            str(course.jobs_killed),
            str(course.jobs_moved),
            f"{course.gpu_hours_lost:,.0f}",
            f"{course.idle_gpu_hours:,.0f}",
            f"{course.redone_gpu_hours:,.0f}",
        )


def campaign_rows(campaigns: Iterable[CampaignView], *, now_ns: int, wide: bool) -> Iterable[tuple[str, ...]]:
    """Return a row per campaign."""
    for one in campaigns:
        spec, steps = one.spec, one.steps
        row = (
            one.name,
            f"{spec.component.value}={spec.version}" if spec.version else spec.component.value,
            one.state,
            str(steps.get(Step.DONE, 0) + steps.get(Step.ROLLED_BACK, 0)),
            str(sum(steps.get(step, 0) for step in _OPEN)),
            str(steps.get(Step.FAILED, 0)),
            str(steps.get(Step.PLANNED, 0)),
            moments.when(one.next_at, now_ns=now_ns) if one.next_at else "-",
            moments.when(one.ended_at or one.ends_at, now_ns=now_ns) if one.ended_at or one.ends_at else "-",
            f"{one.gpu_hours_lost:,.1f}",
        )
        more = (f"{one.out_of_use}/{one.out_of_use_most}", one.principal, one.cluster, one.reason or spec.reason)
        yield (*row, *more) if wide else row


def turn_rows(turns: Iterable[TurnView], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per node."""
    for turn in turns:
        cordon = f"cordoned by {turn.cordoned_by}" if turn.cordoned_by else ""
        yield (
            turn.node,
            turn.step,
            moments.when(turn.turn_at, now_ns=now_ns) if turn.turn_at else "-",
            turn.waits_for or "-",
            turn.detail or cordon,
        )


def _selection(texts: Iterable[str]) -> dict[str, object]:
    labels, lists = dict[str, str](), dict[str, list[str]]()
    for text in texts:
        key, sign, value = text.partition("=")
        if not (key and sign and value):
            raise usage(f"--select: {text!r} is not KEY=VALUE; write for example group=h100 or zone=a")
        if key in _KEYS:
            lists.setdefault(_KEYS[key], []).extend(part.strip() for part in value.split(",") if part.strip())
        else:
            labels[key] = value
    return {"labels": labels, **lists}


def _name(component: str, version: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", f"{component} {version}".lower()).strip("-")
    return words[:63].strip("-") or "upgrade"


def _days(text: str, window: str) -> Iterable[int]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        begin, end = _day(first, window), _day(last or first, window)
        yield from ((begin + step) % len(DAYS) for step in range((end - begin) % len(DAYS) + 1))


def _day(text: str, window: str) -> int:
    if text[:3].lower() not in DAYS:
        raise usage(f"--window: {window!r}: {text!r} is not a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun")
    return DAYS.index(text[:3].lower())


def _minute(text: str, window: str) -> int:
    hours, minutes = (int(part) for part in text.split(":"))
    if hours * 60 + minutes > 24 * 60 or minutes > 59:
        raise usage(f"--window: {window!r}: {text} is not a time of day; write 00:00 to 24:00")
    return hours * 60 + minutes
