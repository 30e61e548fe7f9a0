"""What the schedulers of the field are tested with, as scenarios: each comes out as the policy says."""

import pytest

from muster.simulator.scenario import differences, parse, simulate

NODE = "nodes: [{name: n, gpus: 8}]\n"
TWO_TEAMS = NODE + "queues: [{name: o}, {name: a, parent: o, quota: {gpu: 4}}, {name: b, parent: o, quota: {gpu: 4}}]\n"
ONE_QUEUE = NODE + "queues: [{name: q}]\n"
TWO_NODES = "nodes: [{name: n, gpus: 8, count: 2}]\n"

CASES = {
    "nobody is stopped where that does not help": ONE_QUEUE
    + """
jobs:
  - {name: fixed, queue: q, gpus: 6, preemptible: false, state: running}
  - {name: low, queue: q, gpus: 2, priority: 1, state: running}
  - {name: high, queue: q, gpus: 8, priority: 99}
expect: {jobs: {low: {state: running, preempted_for: null}, high: {state: pending, reason: gpu}}}
""",
    "who turns out not to be needed is put back": ONE_QUEUE
    + """
jobs:
  - {name: one, queue: q, gpus: 1, priority: 1, state: running}
  - {name: seven, queue: q, gpus: 7, priority: 3, state: running}
  - {name: high, queue: q, gpus: 7, priority: 99}
expect: {jobs: {one: {state: running}, seven: {state: pending, preempted_for: high}, high: {state: running}}}
""",
    "nobody is stopped on a node to which nothing comes": """
nodes: [{name: n, gpus: 8, state: cordoned}, {name: m, gpus: 8}]
queues: [{name: q}]
jobs:
  - {name: useless, queue: q, gpus: 8, priority: 1, state: running, node: n}
  - {name: low, queue: q, gpus: 8, priority: 10, state: running, node: m}
  - {name: high, queue: q, gpus: 8, priority: 99}
expect: {jobs: {useless: {state: running}, low: {preempted_for: high}, high: {state: running, nodes: [m]}}}
""",
    "one whole node is cleared rather than eight GPUs all over the fleet": """
nodes: [{name: n, gpus: 8, count: 3}]
queues: [{name: q}]
jobs:
  - {name: fixed, queue: q, gpus: 4, replicas: 2, preemptible: false, state: running, nodes: [n-0, n-1]}
  - {name: left, queue: q, gpus: 1, count: 4, priority: 1, state: running, node: n-0}
  - {name: right, queue: q, gpus: 1, count: 4, priority: 1, state: running, node: n-1}
  - {name: whole, queue: q, gpus: 8, priority: 2, state: running}
  - {name: high, queue: q, gpus: 8, priority: 99}
expect: {jobs: {whole: {state: pending, preempted_for: high}, high: {state: running}}, queues: {q: {pending: 1}}}
""",
    "a gang makes way whole": TWO_NODES
    + """
queues: [{name: q}]
jobs:
  - {name: gang, queue: q, gpus: 8, replicas: 2, priority: 1, state: running}
  - {name: high, queue: q, gpus: 8, priority: 99}
expect: {jobs: {gang: {state: pending, replicas: 0, preempted_for: high}, high: {state: running}}}
""",
    "a run in its slice is passed over, whatever its priority": ONE_QUEUE
    + """
jobs:
  - {name: lowest, queue: q, gpus: 4, priority: 1, state: running, started_s_ago: 60}
  - {name: low, queue: q, gpus: 4, priority: 2, state: running}
  - {name: high, queue: q, gpus: 4, priority: 99}
expect: {jobs: {lowest: {state: running}, low: {state: pending, preempted_for: high}, high: {state: running}}}
""",
    "quota is taken back from all who borrow, down to their quota": """
nodes: [{name: n, gpus: 6, count: 2}]
queues: [{name: o}, {name: a, parent: o, quota: {gpu: 3}}, {name: c, parent: o, quota: {gpu: 3}},
         {name: b, parent: o, quota: {gpu: 6}}]
jobs:
  - {name: a, queue: a, gpus: 1, count: 6, state: running, nodes: [n-0]}
  - {name: c, queue: c, gpus: 1, count: 6, state: running, nodes: [n-1]}
  - {name: gang, queue: b, gpus: 3, replicas: 2}
expect: {jobs: {gang: {state: running}}, queues: {a: {held: {gpu: 3}}, c: {held: {gpu: 3}}}}
""",
    "a reclaim takes the surplus of an elastic job and leaves it running": TWO_TEAMS
    + """
jobs:
  - {name: elastic, queue: a, gpus: 1, replicas: 8, min_replicas: 2, state: running}
  - {name: mine, queue: b, gpus: 4}
expect: {jobs: {elastic: {state: running, replicas: 4, preempted_for: mine}, mine: {state: running}}}
""",
    "nominal quota is not taken, whatever the priority and the waiting": TWO_TEAMS
    + """
jobs:
  - {name: theirs, queue: b, gpus: 4, priority: 1, state: running}
  - {name: fixed, queue: a, gpus: 4, preemptible: false, state: running}
  - {name: high, queue: a, gpus: 4, priority: 999, submitted_s_ago: 86400}
expect: {jobs: {theirs: {state: running, preempted_for: null}, high: {state: pending, reason: quota}}}
""",
    "a team takes back from one of its own department, which borrows nothing": """
nodes: [{name: n, gpus: 8}]
queues: [{name: o}, {name: d1, parent: o}, {name: d2, parent: o}, {name: x, parent: d1, quota: {gpu: 2}},
         {name: y, parent: d1, quota: {gpu: 2}}, {name: z, parent: d2, quota: {gpu: 4}}]
jobs:
  - {name: x, queue: x, gpus: 2, count: 2, state: running}
  - {name: z, queue: z, gpus: 4, state: running}
  - {name: more, queue: z, gpus: 2}
  - {name: y, queue: y, gpus: 2}
expect: {jobs: {y: {state: running}, z: {state: running}, more: {reason: quota}}, queues: {x: {held: {gpu: 2}}}}
""",
    "weights hold on every level also where others have to make way first": """
nodes: [{name: n, gpus: 16}]
queues: [{name: o, quota: {gpu: 16}}, {name: d1, parent: o}, {name: d2, parent: o}, {name: a, parent: d1, weight: 1},
         {name: b, parent: d1, weight: 3}, {name: c, parent: d2}]
jobs:
  - {name: c, queue: c, gpus: 1, count: 16, state: running}
  - {name: a, queue: a, gpus: 1, count: 16}
  - {name: b, queue: b, gpus: 1, count: 16}
expect: {queues: {a: {held: {gpu: 2}}, b: {held: {gpu: 6}}, c: {held: {gpu: 8}}}}
""",
    "a queue's own jobs share with the queues below it as one of them": """
nodes: [{name: n, gpus: 9}]
queues: [{name: o, quota: {gpu: 9}}, {name: a, parent: o}, {name: b, parent: o}]
jobs:
  - {name: b, queue: b, gpus: 1, count: 9, state: running}
  - {name: own, queue: o, gpus: 1, count: 9}
  - {name: a, queue: a, gpus: 1, count: 9}
expect: {queues: {a: {held: {gpu: 3}}, b: {held: {gpu: 3}}, o: {held: {gpu: 9}}}}
""",
    "the dominant resources of two teams are balanced": """
nodes: [{name: n, gpus: 8, cpu: 64}]
queues: [{name: o, quota: {gpu: 8, cpu: 64}}, {name: a, parent: o}, {name: b, parent: o}]
jobs:
  - {name: a, queue: a, gpus: 0, cpu: 8, count: 8}
  - {name: b, queue: b, gpus: 1, cpu: 4, count: 8}
expect: {queues: {a: {held: {cpu: 40}, share: 0.625}, b: {held: {gpu: 6, cpu: 24}, share: 0.75}}}
""",
    "a share is of what can be lent, divided by the weight": """
nodes: [{name: n, gpus: 13}]
queues: [{name: o}, {name: a, parent: o, quota: {gpu: 5}, weight: 2},
         {name: b, parent: o, quota: {gpu: 8}, lending_limit: {gpu: 2}}]
jobs: [{name: x, queue: a, gpus: 7, state: running}]
expect: {queues: {a: {share: 0.1429}, b: {share: 0}}}
""",
    "a team with quota takes back from those who have none, another tree's": NODE
    + """
queues: [{name: a, quota: {gpu: 4}}, {name: free}]
jobs:
  - {name: f, queue: free, gpus: 1, count: 8, state: running}
  - {name: a, queue: a, gpus: 2, count: 3}
expect: {queues: {a: {held: {gpu: 4}, pending: 1}, free: {held: {gpu: 4}}}}
""",
    "two jobs of the whole fleet do not stop each other in turn": NODE
    + """
queues: [{name: a}, {name: b}]
jobs:
  - {name: a, queue: a, gpus: 8, state: running}
  - {name: b, queue: b, gpus: 8}
expect: {jobs: {a: {state: running, preempted_for: null}, b: {state: pending}}}
""",
    "of shares of one GPU as little as is needed makes way": """
nodes: [{name: n, gpus: 1}]
queues: [{name: q}]
jobs:
  - {name: low, queue: q, gpus: 0.5, priority: 10, state: running}
  - {name: middle, queue: q, gpus: 0.5, priority: 20, state: running}
  - {name: high, queue: q, gpus: 0.4, priority: 90}
expect: {jobs: {low: {preempted_for: high}, middle: {state: running}, high: {state: running}}}
""",
    "a checkpointed job moves aside for a gang where its queue wants it": TWO_NODES
    + """
queues: [{name: q, defragment: move}]
jobs:
  - {name: fresh, queue: q, gpus: 4, state: running, node: n-0, started_s_ago: 7200, checkpoint_s_ago: 10}
  - {name: stale, queue: q, gpus: 4, state: running, node: n-1, started_s_ago: 7200, checkpoint_s_ago: 3000}
  - {name: gang, queue: q, gpus: 8}
expect: {jobs: {fresh: {state: running, nodes: [n-1]}, stale: {preempted_for: null}, gang: {nodes: [n-0]}}}
""",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_field_case(text: str) -> None:
    scenario = parse(text)
    assert differences(scenario.expect, simulate(scenario)) == ()
