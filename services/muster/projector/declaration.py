"""Declares what the projector reads and writes. Loads little: a stack asks before it starts anything."""

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
