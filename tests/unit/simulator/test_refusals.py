"""A scenario that cannot be is refused with the field that says so."""

import pytest

from muster.simulator.errors import InputError
from muster.simulator.scenario import parse
from unit.simulator.worlds import node, pending, play, running


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("nodes: [{name: n0, gpus: 8, gpu: 8}]", "nodes[0].gpu"),
        ("nodes: [{name: n0}]", "nodes[0].gpus"),
        ("nodes: [{name: n0, gpus: many}]", "nodes[0].gpus"),
        ("nodes: [{name: n0, gpus: 8, gpus: 4}]", "nodes[0].gpus"),
        ("nodes: []\nqueues: [{name: q}]\nnodes: []", "nodes"),
        ("nodes: []\nqueues: [{name: q, preemption: {reclaim: always}}]", "queues[0].preemption.reclaim"),
        ("nodes: []\nqueues: [{name: q, preemption: {whatever: x}}]", "queues[0].preemption.whatever"),
        ("nodes: []\njobs: [{name: a, queue: q, gpus: 1, prority: 5}]", "jobs[0].prority"),
        ("nodes: []\njobs: [{name: a, queue: q, gpus: '1'}]", "jobs[0].gpus"),
        ("nodes: []\nsurprise: 1", "surprise"),
        ("[1, 2]", ""),
        ("nodes: [{name: n0, gpus: 8", "line"),
        ("nodes: &a [*a]", "nodes"),
    ],
)  # fmt: skip
def test_text_that_is_no_scenario(text: str, field: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    assert refused.value.field.startswith(field), str(refused.value)


_Q = {"queues": [{"name": "q"}]}


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({**_Q, "nodes": [node(), node()]}, "nodes[1].name"),
        ({**_Q, "nodes": [node(gpus=8, sockets=3)]}, "nodes[0].sockets"),
        ({**_Q, "nodes": [node(device_domains={"pair": [0, 0]})]}, "nodes[0].device_domains.pair"),
        ({"nodes": [], "queues": [{"name": "q"}, {"name": "q"}]}, "queues[1].name"),
        ({"nodes": [], "queues": [{"name": "q", "parent": "p"}]}, "queues[0].parent"),
        ({"nodes": [], "queues": [{"name": "q", "parent": "p"}, {"name": "p", "parent": "q"}]}, "queues[0].parent"),
        ({"nodes": [], "queues": [{"name": "q", "quota": {"gpus": 8}}]}, "queues[0].quota.gpus"),
        ({"nodes": [], "queues": [{"name": "q", "quota": {"gpu": -1}}]}, "queues[0].quota.gpu"),
        ({**_Q, "nodes": [], "jobs": [pending("a", "p", 1)]}, "jobs[0].queue"),
        ({**_Q, "nodes": [], "jobs": [pending("a", "q", 1), pending("a", "q", 1)]}, "jobs[1].name"),
        ({**_Q, "nodes": [], "jobs": [pending("a", "q", 1.5)]}, "jobs[0].gpus"),
        ({**_Q, "nodes": [], "jobs": [pending("a", "q", 1, replicas=2, min_replicas=3)]}, "jobs[0].min_replicas"),
        ({**_Q, "nodes": [], "jobs": [pending("a", "q", 1, started_s_ago=5)]}, "jobs[0].started_s_ago"),
        ({**_Q, "nodes": [], "jobs": [running("a", "q", 1)]}, "jobs[0].nodes[0]"),
        ({**_Q, "nodes": [node(state="lost")], "jobs": [running("a", "q", 1)]}, "jobs[0].nodes[0]"),
        ({**_Q, "nodes": [node(model="A100")], "jobs": [running("a", "q", 1, model="H100")]}, "jobs[0].nodes[0]"),
        ({**_Q, "nodes": [node()], "jobs": [running("a", "q", 5), running("b", "q", 4)]}, "jobs[1].nodes[0]"),
        ({**_Q, "nodes": [node(gpus=1)], "jobs": [running("a", "q", 0.6), running("b", "q", 0.5)]}, "jobs[1].nodes[0]"),
        ({**_Q, "nodes": [node(cpu=4)], "jobs": [running("a", "q", 1, cpu=8)]}, "jobs[0].nodes[0]"),
        ({**_Q, "nodes": [node()], "jobs": [running("a", "q", 1, submitted_s_ago=5, started_s_ago=9)]},
         "jobs[0].submitted_s_ago"),
        ({**_Q, "nodes": [node()], "jobs": [running("a", "q", 1, checkpoint_s_ago=9, started_s_ago=5)]},
         "jobs[0].checkpoint_s_ago"),
        ({**_Q, "nodes": [node()], "jobs": [{"name": "a", "queue": "q", "gpus": 1, "replicas": 3, "state": "running",
                                             "nodes": ["n0"]}]}, "jobs[0].nodes"),
        ({"nodes": [], "queues": [{"name": "q", "closed": True}], "jobs": [pending("a", "q", 1)],
          "reservations": [{"name": "r", "duration_s": 60, "nodes": ["n9"]}]}, "reservations[0].nodes[0]"),
        ({**_Q, "nodes": [], "reservations": [{"name": "r", "duration_s": 60}]}, "reservations[0]"),
    ],
)  # fmt: skip
def test_a_state_that_cannot_be(parts: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as refused:
        play(**parts)
    assert refused.value.field.startswith(field), str(refused.value)
