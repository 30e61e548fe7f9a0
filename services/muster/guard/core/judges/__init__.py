"""Who judges a look, one module for each advice. Another advice is another row."""

from collections.abc import Mapping

from muster.guard.core.judges import collection, ended_pods, lists, skew, streams, unlimited, workloads
from muster.guard.core.judges.finding import Judge

JUDGES: Mapping[str, Judge] = {
    lists.CODE: lists.judge,
    skew.CODE: skew.judge,
    collection.CODE: collection.judge,
    workloads.CODE: workloads.judge,
    unlimited.CODE: unlimited.judge,
    streams.CODE: streams.judge,
    ended_pods.CODE: ended_pods.judge,
}
"""By the advice's code."""
