"""What a page says of one GPU that lasts: which conditions it shows, and which it shows to be over."""

from collections.abc import Iterable

from muster.health.core.limits import WORD_CHARS_MAX
from muster.health.core.rules import RuleTable
from muster.schemas.telemetry import DeviceSample, ExporterState, WatchLevel

EXPORTER = {
    ExporterState.HUNG: "exporter-hung",
    ExporterState.STALE: "exporter-stale",
    ExporterState.DOWN: "exporter-down",
    ExporterState.NONSENSE: "exporter-nonsense",
}
MISSING = "gpu-missing"
HOT = "gpu-hot"


def conditions(device: DeviceSample, table: RuleTable) -> Iterable[tuple[str, bool, str]]:
    """What lasts, as (code, whether it is so, in words); what the page does not show is left out."""
    for reading in device.watches:
        if reading.level is not WatchLevel.PASS:
            prefix = "watch-warn-" if reading.level is WatchLevel.WARN else "watch-"
            yield f"{prefix}{_name(reading.watch)}", True, reading.code
    if device.remap_pending:
        yield "remap-pending", True, "a row remapping waits for a reset"
    if device.remap_failed:
        yield "remap-failed", True, "a row could not be remapped"
    action = device.recovery_action
    if action and action.lower() != "none":
        yield f"recovery-{_name(action)}", True, f"the driver recommends {action}"
    for reason in device.throttled:
        yield f"throttle-{_name(reason)}", True, ""
    rule = table.rule(HOT)
    if rule is not None and rule.least is not None:
        is_hot = device.temperature_c >= rule.least
        yield HOT, is_hot, f"{device.temperature_c:g} C, {rule.least:g} are allowed" if is_hot else ""


def is_off(device: DeviceSample, code: str) -> bool:
    """Whether the page says that it is not so: silence says nothing."""
    match code.split("-", 1)[0]:
        case "watch":
            name = code.removeprefix("watch-").removeprefix("warn-")
            return any(_name(one.watch) == name and one.level is WatchLevel.PASS for one in device.watches)
        case "recovery":
            return not device.recovery_action or device.recovery_action.lower() == "none"
        case "throttle":
            return code not in {f"throttle-{_name(reason)}" for reason in device.throttled}
        case _:
            pass
    if code == "remap-pending":
        return device.remap_pending is False
    if code == "remap-failed":
        return device.remap_failed is False
    return False


def _name(word: str) -> str:
    """As codes have it: NVSWITCH_FATAL is `nvswitch-fatal`. What a page says may be longer than a code can be."""
    return word.lower().replace("_", "-")[:WORD_CHARS_MAX]
