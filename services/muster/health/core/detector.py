"""The fault detector: readings of nodes become fault signals."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from muster.core import Instant, after
from muster.health.core.limits import WORD_CHARS_MAX, XID_WINDOW_S
from muster.health.core.rules import RuleTable
from muster.health.core.signals import FaultSignal, FaultSignals
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample, WatchLevel

EXPORTER = {
    ExporterState.HUNG: "exporter-hung",
    ExporterState.STALE: "exporter-stale",
    ExporterState.DOWN: "exporter-down",
    ExporterState.NONSENSE: "exporter-nonsense",
}
MISSING = "gpu-missing"
HOT = "gpu-hot"


def conditions(device: DeviceSample, table: RuleTable) -> Iterable[tuple[str, bool, str]]:
    """Yield lasting conditions as (code, whether it holds, text), without those that the page does not show."""
    for reading in device.watches:
        if reading.level is not WatchLevel.PASS:
            prefix = "watch-warn-" if reading.level is WatchLevel.WARN else "watch-"
            yield f"{prefix}{_code_part(reading.watch)}", True, reading.code
    if device.remap_pending:
        yield "remap-pending", True, "a row remapping waits for a reset"
    if device.remap_failed:
        yield "remap-failed", True, "a row could not be remapped"
    action = device.recovery_action
    if action and action.lower() != "none":
        yield f"recovery-{_code_part(action)}", True, f"the driver recommends {action}"
    for reason in device.throttled:
        yield f"throttle-{_code_part(reason)}", True, ""
    rule = table.rule(HOT)
    if rule is not None and rule.least is not None:
        is_hot = device.temperature_c >= rule.least
        yield HOT, is_hot, f"{device.temperature_c:g} C, {rule.least:g} are allowed" if is_hot else ""


def is_off(device: DeviceSample, code: str) -> bool:
    """Return whether the page shows that the condition is over; a missing value shows nothing."""
    match code.split("-", 1)[0]:
        case "watch":
            name = code.removeprefix("watch-").removeprefix("warn-")
            return any(_code_part(one.watch) == name and one.level is WatchLevel.PASS for one in device.watches)
        case "recovery":
            return not device.recovery_action or device.recovery_action.lower() == "none"
        case "throttle":
            return code not in {f"throttle-{_code_part(reason)}" for reason in device.throttled}
        case _:
            pass
    if code == "remap-pending":
        return device.remap_pending is False
    if code == "remap-failed":
        return device.remap_failed is False
    return False


def _code_part(word: str) -> str:
    """Return the text as a part of a code: NVSWITCH_FATAL is `nvswitch-fatal`. Texts of a page may be too long for a
    code."""
    return word.lower().replace("_", "-")[:WORD_CHARS_MAX]


Key = tuple[str, str]
"""(device, code); device "" for the node itself."""


@dataclass(slots=True)
class _Device:
    """The last reading of one device; `counted_at` is when a counted code was last new."""

    xid: int | None = None
    counts: dict[int, int] = field(default_factory=dict)
    counted_at: dict[int, Instant] = field(default_factory=dict)
    dbe: int | None = None
    sbe: int | None = None


@dataclass(slots=True)
class _Node:
    """began: lasting faults that the page shows, and since when. absent: those that it shows to be over, since when.

    told: which of `began` became signals.
    """

    devices: dict[str, _Device] = field(default_factory=dict)
    began: dict[Key, Instant] = field(default_factory=dict)
    absent: dict[Key, Instant] = field(default_factory=dict)
    told: set[Key] = field(default_factory=set)
    at: int = 0


@dataclass(slots=True)
class _Look:
    """One reading being processed."""

    sample: NodeSample
    node: _Node
    table: RuleTable
    standing: Set[Key]
    watched: Set[Key]
    shown: dict[Key, str] = field(default_factory=dict)
    over: set[Key] = field(default_factory=set)

    @property
    def at(self) -> Instant:
        """Return the time of the reading."""
        return Instant(self.sample.at)


class FaultDetector:
    """Reads samples, one after the other. standing: lasting faults that stand by now, as the log says, of a node.

    known: whether an event of (node, device, code) was reported since a time, for pages from before the first reading.
    steady_s: how long the end of a lasting fault must be shown. node_of: which node shows a device, as the log says.
    unknown: codes without a rule, and how often. foreign: readings of devices that are not the node's.
    """

    def __init__(
        self,
        signals: FaultSignals,
        rules: Callable[[str], RuleTable],
        *,
        standing: Callable[[str], Set[Key]],
        known: Callable[[str, str, str, Instant], bool],
        steady_s: float,
        node_of: Mapping[str, str],
    ) -> None:
        self._signals, self._rules = signals, rules
        self._standing, self._known = standing, known
        self._steady_s, self._node_of = steady_s, node_of
        self._nodes: dict[str, _Node] = {}
        self._answering: set[str] = set()
        self.unknown: dict[str, int] = {}
        self.foreign = 0

    def look(self, sample: NodeSample) -> bool:
        """Process one reading; return whether there is a new signal. Readings older than the last one are ignored."""
        node = self._nodes.setdefault(sample.node, _Node())
        if sample.at <= node.at:
            return False
        node.at = sample.at
        if sample.exporter is ExporterState.OK:
            self._answering.add(sample.node)
        elif not self._has_exporter(sample.node):
            return False
        before = len(self._signals)
        standing = self._standing(sample.node)
        look = _Look(sample, node, self._rules(sample.gpu_model), standing, standing | node.began.keys())
        if sample.exporter is ExporterState.OK:
            look.over.update(("", code) for code in EXPORTER.values())
            for device in self._own(sample):
                self._look_at(device, look)
            for uuid in sample.missing:
                if self._node_of.get(uuid, sample.node) == sample.node:
                    look.shown[uuid, MISSING] = "expected, and not on the exporter's page"
        else:
            node.absent.clear()  # what a page shows counts anew once there is one again
            look.shown["", EXPORTER[sample.exporter]] = sample.error
        if look.shown:
            self._begin(look)
        if look.watched:
            self._end(look)
        return len(self._signals) > before

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._nodes.pop(node, None)
        self._answering.discard(node)

    def _has_exporter(self, node: str) -> bool:
        """Return whether an exporter is expected: it answered before, or most nodes have one. A fleet may have none."""
        return node in self._answering or 2 * len(self._answering) >= len(self._nodes)

    def _own(self, sample: NodeSample) -> list[DeviceSample]:
        """Devices that are the node's: a page may go on showing one that moved to another node.

        A node that shows a device as the log has it tells real names; then what the log has nowhere is none of it.
        """
        homes = [self._node_of.get(device.uuid) for device in sample.devices]
        is_known = sample.node in homes
        own = [
            device
            for device, home in zip(sample.devices, homes, strict=True)
            if 0 < len(device.uuid) <= LABEL_CHARS_MAX and (home == sample.node or (home is None and not is_known))
        ]
        self.foreign += len(sample.devices) - len(own)
        return own

    def _look_at(self, device: DeviceSample, look: _Look) -> None:
        last = look.node.devices.get(device.uuid)
        is_first = last is None
        if last is None:
            last = look.node.devices[device.uuid] = _Device()
        for code, count in self._events(device, last, look, is_first=is_first):
            self._tell_event(device, look, code, count)
        uuid = device.uuid
        for code, is_on, detail in conditions(device, look.table):
            if is_on:
                look.shown[uuid, code] = detail
            else:
                look.over.add((uuid, code))
        if look.watched:
            look.over.add((uuid, MISSING))
            look.over.update(key for key in look.watched if key[0] == uuid and is_off(device, key[1]))

    def _events(self, device: DeviceSample, last: _Device, look: _Look, *, is_first: bool) -> Iterator[tuple[str, int]]:
        counted = dict(device.xid_counts)
        if counted or last.counts:
            yield from self._counted(counted, device, last, look, is_first=is_first)
        if device.xid and device.xid != last.xid and device.xid not in counted:
            # Shown before the first reading: it is reported once, if the log has no report.
            code = f"xid-{device.xid}"
            if not (is_first and self._known(look.sample.node, device.uuid, code, Instant(0))):
                yield code, 1
        last.xid = device.xid
        for name, value, before in (("ecc-dbe", device.ecc_dbe, last.dbe), ("ecc-sbe", device.ecc_sbe, last.sbe)):
            if value is not None and before is not None and value > before:
                yield name, value - before
        last.dbe, last.sbe = device.ecc_dbe, device.ecc_sbe

    def _counted(
        self, counted: dict[int, int], device: DeviceSample, last: _Device, look: _Look, *, is_first: bool
    ) -> Iterator[tuple[str, int]]:
        """Process codes that the exporter counts in a window: one that grows, or outlives the window, has new ones."""
        at, looked_from = look.at, after(look.at, -2 * XID_WINDOW_S)
        for number, count in counted.items():
            before = last.counts.get(number, 0)
            if number and count and (count > before or after(last.counted_at.get(number, at), XID_WINDOW_S) < at):
                last.counted_at[number] = at
                code = f"xid-{number}"
                if not (is_first and self._known(look.sample.node, device.uuid, code, looked_from)):
                    yield code, max(1, count - before)
        last.counts = counted

    def _tell_event(self, device: DeviceSample, look: _Look, code: str, count: int) -> None:
        rule = look.table.rule(code)
        if rule is None:
            self.unknown[code] = self.unknown.get(code, 0) + count
            return
        self._signals.add(
            FaultSignal(
                look.sample.node, code, look.at, device.uuid,
                count=count, jobs=device.job_ids, is_minor=not rule.fault_class.is_hardware,
            )
        )  # fmt: skip
        for cleared in rule.clears:
            self._signals.add(
                FaultSignal(look.sample.node, cleared, look.at, device.uuid, is_over=True, detail=f"{code} came")
            )

    def _begin(self, look: _Look) -> None:
        """Signal conditions that the page has shown for as long as the rule requires."""
        node = look.node
        for key, detail in look.shown.items():
            node.absent.pop(key, None)
            rule = look.table.rule(key[1])
            if rule is None:
                self.unknown[key[1]] = self.unknown.get(key[1], 0) + 1
                continue
            since = node.began.setdefault(key, look.at)
            if key in node.told or after(since, rule.for_s) > look.at:
                continue
            signal = FaultSignal(
                look.sample.node, key[1], since, key[0], is_lasting=True, detail=detail,
                jobs=_holders(look.sample, key[0]), is_minor=not rule.fault_class.is_hardware,
            )  # fmt: skip
            if key in look.standing or self._signals.add(signal):
                node.told.add(key)  # else there is no room now: it is seen again

    def _end(self, look: _Look) -> None:
        """Signal the end of conditions that the page has shown to be over for `steady_s`."""
        node = look.node
        for key in sorted(look.over & look.watched):
            if key in look.shown:
                continue
            since = node.absent.setdefault(key, look.at)
            if after(since, self._steady_s) > look.at:
                continue
            del node.absent[key]
            node.began.pop(key, None)
            if key in look.standing:
                words = f"the page has shown otherwise for {self._steady_s:g} s"
                self._signals.add(
                    FaultSignal(look.sample.node, key[1], look.at, key[0], is_lasting=True, is_over=True, detail=words)
                )
            elif key in node.told:
                self._signals.take(look.sample.node, *key)
            node.told.discard(key)


def _holders(sample: NodeSample, device: str) -> tuple[str, ...]:
    return next((one.job_ids for one in sample.devices if one.uuid == device), ()) if device else ()
