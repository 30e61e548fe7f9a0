"""The Python SDK: talk to a running Muster from async code."""

from muster.client.client import Muster
from muster.client.errors import (
    ConflictError,
    MusterError,
    NotAllowedError,
    NotFoundError,
    RefusedError,
    StateDirError,
    UnavailableError,
    UnreachableError,
)
from muster.client.http import Retry
from muster.client.tokens import CommandToken, FileToken, FixedToken, TokenError, TokenSource
from muster.client.watch import TypedFact
from muster.schemas.access import Role, TokenMade, TokenRecord, TokenView
from muster.schemas.devices import (
    AllocationPolicy,
    AttachmentPhase,
    ComposabilityManifest,
    ComposabilitySpec,
    DeviceView,
    FabricView,
    RequestPhase,
    RequestView,
)
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import Repeat, ReservationSpec
from muster.schemas.job import Checkpointing, JobKind, JobSpec, Phase, Slot, TaskGroup, Topology
from muster.schemas.live import OutputLine, OutputPage
from muster.schemas.pods import JobPod, JobPods
from muster.schemas.queries import DryRunAnswer, ScaleChoiceView, WhyAnswer
from muster.schemas.views import FactView, JobView, NodeView, Problem, QueueView, ReservationView

__all__ = [
    "AllocationPolicy",
    "AttachmentPhase",
    "Checkpointing",
    "CommandToken",
    "ComposabilityManifest",
    "ComposabilitySpec",
    "ConflictError",
    "DeviceView",
    "DryRunAnswer",
    "FabricView",
    "FactView",
    "FileToken",
    "FixedToken",
    "JobKind",
    "JobPod",
    "JobPods",
    "JobSpec",
    "JobView",
    "Muster",
    "MusterError",
    "NodeView",
    "NotAllowedError",
    "NotFoundError",
    "OutputLine",
    "OutputPage",
    "Phase",
    "Problem",
    "QueueSpec",
    "QueueView",
    "RefusedError",
    "Repeat",
    "RequestPhase",
    "RequestView",
    "ReservationSpec",
    "ReservationView",
    "Retry",
    "Role",
    "ScaleChoiceView",
    "Slot",
    "StateDirError",
    "TaskGroup",
    "TokenError",
    "TokenMade",
    "TokenRecord",
    "TokenSource",
    "TokenView",
    "Topology",
    "TypedFact",
    "UnavailableError",
    "UnreachableError",
    "WhyAnswer",
]
