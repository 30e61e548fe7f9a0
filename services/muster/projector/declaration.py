"""Declares the logs, publications and subscriptions of the projector. Imports little: a stack reads it first."""

from muster.bus.declaration import Declaration
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="projector",
    folds=(StreamRole.LOG, StreamRole.FED),
    publishes=(
        "view.{cluster}.*.slice",
        "view.{cluster}.*.packed",
        "view.{cluster}.*.telemetry",
        "view.{cluster}.*.output.*",
        "view.fed.*.slice",
        "view.fed.*.packed",
    ),
    subscribes=("telemetry.{cluster}.*", "logs.{cluster}.*"),
)
