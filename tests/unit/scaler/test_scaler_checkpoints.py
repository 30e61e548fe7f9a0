"""A checkpoint may fall after any fact: who starts from it decides as who folded the log."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kit.scaler import VirtualScaler, composable, config, ordinary
from muster.core import Draft
from muster.scaler.core import ScalerCore
from muster.scaler.core.limits import LOOKS_MAX
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job

SETTINGS = config(
    composable(nodes_max=3), ordinary(nodes_max=2), gpu_idle_s=60, node_unneeded_s=90, delay_after_add_s=30
)


def said(drafts: list[Draft]) -> list[tuple[object, ...]]:
    """What is decided. Which fact said why a job waits is not recorded: its last fact stands for it."""
    return [(draft.kind, draft.subject_id, draft.name, draft.payload, draft.trace, draft.together) for draft in drafts]


def chosen(drafts: list[Draft]) -> list[tuple[object, ...]]:
    """The same, without what nothing is chosen for: why not, and with which numbers, is as of when that was found."""
    return [line for draft, line in zip(drafts, said(drafts), strict=True) if draft.name != "nothing-chosen"]


def fleet(core: ScalerCore) -> object:
    """The fleet with what is on its way."""
    core.policies.future.settle()
    return {
        name: (node.shape, tuple(node.idle), node.cpu_milli, node.memory_mib, node.usable, frozenset(node.broken))
        for name, node in core.state.cluster.fleet.ledger.nodes.items()
    }


def belief(core: ScalerCore) -> object:
    """All that decisions rest on."""
    state = core.state
    return {
        "fleet": fleet(core),
        "pending": {(queue.shape.queue, queue.shape.gang): queue.jobs for queue in state.demand.pending.values()},
        "choices": state.choices.open,
        "attachments": state.attachments.all,
        "kept": state.attachments.kept,
        "pool": state.pool.stocks,
        "queues": {name: queue.held() for name, queue in state.queues.queues.items()},
        "moved": state.cooldowns.moved_at,
        "failed": state.cooldowns.failed_at,
        "served": state.jobs.served_at,
        "refused": state.refused,
        "groups": {name: state.cluster.node_groups.group_of(name) for name in state.cluster.nodes},
        "idle": (
            state.cluster.idle.stored_devices(),
            state.cluster.idle.stored_nodes(),
            state.cluster.idle.stored_low(),
        ),
    }


class Histories(RuleBasedStateMachine):
    """Jobs come, are told, placed and end; devices and nodes come and go; the scaler decides now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.world = VirtualScaler(SETTINGS)
        self.world.survey(free=6, attached=2)
        self.world.join("comp", 1, gpus=2)
        self.jobs: list[Job] = []
        self.count = 0

    @rule(gpus=st.integers(0, 3), replicas=st.integers(1, 2), memory=st.sampled_from([1_024, 60_000, 200_000]))
    def submit(self, gpus: int, replicas: int, memory: int) -> None:
        if len(self.world.core.state.demand.pending) >= LOOKS_MAX:
            return  # one that remembers gets further in one decision
        self.count += 1
        reason = "memory" if memory > 60_000 else "gpu"
        name = f"j{self.count}"
        self.jobs.append(self.world.submit(name, gpus=gpus, replicas=replicas, memory_mib=memory, reason=reason))

    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        """The scheduler finds a place, if there is one in the fleet as it is."""
        waiting = [one for one in self.jobs if one.id in self.world.jobs and not self.world.jobs[one.id].slots]
        if not waiting:
            return
        one = data.draw(st.sampled_from(waiting))
        core = self.world.refold()
        for node in list(core.state.cluster.nodes):
            core.state.cluster.coming.lift(node)
        holds = core.state.cluster.fleet.find(core.state.jobs.records[one.id].shape.gang)
        if holds is not None:
            self.world.place(one, *[(hold.slot.node, hold.slot.devices) for hold in holds])

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        live = [one for one in self.jobs if one.id in self.world.jobs]
        if live:
            self.world.end(data.draw(st.sampled_from(live)))

    @rule(seconds=st.sampled_from([1, 20, 100, 1_000]))
    def later(self, seconds: int) -> None:
        self.world.skip(seconds)

    @rule()
    def decide(self) -> None:
        """What it remembers of its earlier decisions changes nothing in this one."""
        afresh = chosen(self.world.refold().decide(self.world.now))
        assert chosen(self.world.core.decide(self.world.now)) == afresh
        for fact in self.world.decide_once("scaler"):
            if not isinstance(fact.payload, ScaleChosen):
                continue
            if fact.name == "gpu-attach-chosen":
                self.world.accept(fact)

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """Whatever was chosen goes one step further."""
        world, steps = self.world, list[tuple[str, str]]()
        steps += [("online", name) for name, one in world.attachments.items() if one.phase == "requested"]
        for choice in world.core.state.choices.open.values():
            steps += [("join", choice.chosen.node)] if choice.name == "node-add-chosen" else []
            steps += [("leave", choice.chosen.node)] if choice.name == "node-remove-chosen" else []
            devices = choice.chosen.devices if choice.name == "gpu-remove-chosen" else ()
            steps += [("detach", uuid) for uuid in devices if uuid in world.core.state.attachments.of_device]
        if not steps:
            return
        what, name = data.draw(st.sampled_from(steps))
        match what:
            case "online" if world.attachments[name].requested.node in world.nodes:
                world.online(name)
            case "join" if name not in world.nodes:
                group, _, index = name.rpartition("-")
                world.join(group, int(index), gpus=2 if group == "ord" else 0, release=data.draw(st.booleans()))
            case "join" if not world.grants["node", name].released:
                world.release("node", name)
            case "leave" if name in world.nodes and not world.core.state.cluster.nodes[name].jobs:
                choice = next(one for one in world.core.state.choices.open.values() if one.chosen.node == name)
                if choice.withheld:
                    world.leave(name)
                else:
                    world.withheld("node", name, choice.chosen.request_id)
            case "detach":
                world.detach(name)

    @invariant()
    def a_checkpoint_decides_alike(self) -> None:
        folded, stored = self.world.refold(), self.world.recover()
        assert belief(stored) == belief(folded)
        assert said(stored.decide(self.world.now)) == said(folded.decide(self.world.now))
        assert stored.next_wakeup() == folded.next_wakeup()


Histories.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestHistories = Histories.TestCase
