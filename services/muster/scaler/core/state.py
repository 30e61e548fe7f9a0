"""All stores of the scaler. Folds change them (`fold*.py`), decisions only read them (`Policies`).

A decision may change caches: changes on their way in the fleet, and failed attempts. Caches derive from the other
stores, and dropping them costs only time.
"""

from collections import Counter
from dataclasses import dataclass, field

from muster.quota.amounts import changes, held_amounts
from muster.quota.queues import QueueTree
from muster.scaler.core.autoscaler import SignalBook
from muster.scaler.core.capacity import Capacity
from muster.scaler.core.changes import Changes, Cooldowns
from muster.scaler.core.choices import Choices, Refusals
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.fabrics import Attachments, Pool
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.jobs import Demand, JobRecord, JobTable


@dataclass(slots=True)
class State:
    """The stores, and the callbacks between them."""

    config: ScalingConfig
    cluster: Cluster = field(init=False)
    queues: QueueTree = field(default_factory=QueueTree)
    jobs: JobTable = field(default_factory=JobTable)
    demand: Demand = field(default_factory=Demand)
    refused: Refusals = field(default_factory=Refusals)
    pool: Pool = field(default_factory=Pool)
    attachments: Attachments = field(default_factory=Attachments)
    choices: Choices = field(default_factory=Choices)
    signals: SignalBook = field(default_factory=SignalBook)
    capacity: Capacity = field(init=False)
    cooldowns: Cooldowns = field(init=False)
    changes: Changes = field(init=False)
    anomalies: Counter[str] = field(default_factory=Counter)
    """Facts that fitted no state, counted by what was wrong."""

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.config)
        self.capacity = Capacity(self.cluster, self.choices, pool=self.pool, attachments=self.attachments)
        self.cooldowns = Cooldowns(self.config, self.pool)
        self.changes = Changes(self.pool)

    def find_node(self, device: str) -> None:
        """Assign a device that was seen on a machine before its node was known to the node that shows it."""
        attachment = self.attachments.of_device.get(device)
        node = self.cluster.nodes.node_of("device", device)
        if attachment is not None and node and not attachment.node:
            self.attachments.remove(attachment.id)
            attachment.node = node
            self.attachments.put(attachment)

    def recount(self, record: JobRecord, *, at: int = 0) -> None:
        """Update the amounts that the queue counts for the job from `at` on; 0 if the job comes from a checkpoint."""
        before = record.counted
        slots, models = self.cluster.slots_held(record.id), self.cluster.node_groups.models
        after = held_amounts(slots, record.shape.gang, lambda node: models.get(node, "")) if slots else {}
        record.counted = after
        for sign, amounts in changes(after, before):
            if amounts:
                self.queues.hold(record.shape.queue, amounts, sign=sign, preemptible=record.shape.preemptible, at=at)
