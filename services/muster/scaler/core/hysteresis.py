"""No flapping: what waiting jobs could use stays, what has just moved stays, and after a failure nothing goes.

Three rules bound how often a device comes and goes. A device that was attached stays for `gpu_idle_s`, so it makes
at most one round trip in that time. What was taken is taken from nobody: neither a hold nor a job that waits. And a
group from which something could not be taken, or to which a node could not be added, is left alone for a while.
"""

from muster.core import Instant, after
from muster.core.settings import GroupSettings
from muster.placement.state import allows
from muster.scaler.core.demand import Line
from muster.scaler.core.limits import EVER_ASKS_MAX
from muster.scaler.core.state import State


class Claims:
    """What waiting jobs could use where it stands; found out at most once in a decision, and only if it is asked for.

    A shape that was refused everything and would not fit on this fleet with nothing held claims nothing: else one
    job that is too large would keep all idle devices from going back.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._found: list[Line] | None = None
        self._of_model: dict[str, str] = {}

    def on_model(self, model: str) -> str:
        """The first job that could use a GPU of this model; "" if there is none."""
        if model not in self._of_model:
            claims = (
                line.jobs[0][2]
                for line in self._lines()
                for group in line.shape.least.groups
                if (group.shape.holds_devices or group.shape.full_node) and allows(group.shape, model)
            )
            self._of_model[model] = next(claims, "")
        return self._of_model[model]

    def on_nodes(self) -> str:
        """The first job that could use a node, with or without GPUs; "" if none waits."""
        lines = self._lines()
        return lines[0].jobs[0][2] if lines else ""

    def _lines(self) -> list[Line]:
        if self._found is None:
            self._found, asks = [], 0
            for entry, line in self._state.demand.in_order():
                is_refused = entry[2] in self._state.refused and asks < EVER_ASKS_MAX
                asks += is_refused
                if not is_refused or self._state.fleet.could_ever_fit(line.shape.least) is None:
                    self._found.append(line)
        return self._found


def has_settled(state: State, uuid: str, now: Instant) -> bool:
    """Whether a device may leave where it was attached: it has been there, idle or not, for its time."""
    return uuid in state.idle.devices.ripe(now) or settled_at(state, uuid) <= now


def settled_at(state: State, uuid: str) -> Instant:
    """When a device has been where it is attached for its time."""
    attachment = state.attachments.of_device.get(uuid)
    return Instant(0) if attachment is None else after(Instant(attachment.since), state.config.settings.gpu_idle_s)


def next_settled(state: State, now: Instant) -> Instant | None:
    """When the next device may leave that has been idle for long enough but came a moment ago."""
    resting = set(state.idle.rested.ripe(now)) - set(state.idle.devices.ripe(now))
    moments = [moment for uuid in resting if (moment := settled_at(state, uuid)) > now]
    return min(moments, default=None)


def gpus_quiet_until(state: State, group: GroupSettings, fabric: str) -> Instant:
    """Until when no GPU of the group is taken: something failed there, or its fabric takes no calls."""
    closed = state.pool.closed_until.get(fabric, Instant(0))
    return max(closed, state.rests_until(removals_of(group.name)), state.rests_until(f"fabric/{fabric}"))


def nodes_quiet_until(state: State, group: GroupSettings) -> Instant:
    """Until when no node of the group is taken: one was added, or something failed there, a moment ago."""
    added = state.moved_at.get(group.name)
    settled = Instant(0) if added is None else after(added, state.config.settings.delay_after_add_s)
    return max(settled, state.rests_until(removals_of(group.name)))


def removals_of(group: str) -> str:
    """Under which name failures of removals count: they say nothing about adding a node."""
    return f"removal/{group}"
