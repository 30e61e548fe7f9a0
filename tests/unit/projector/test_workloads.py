"""Facts about objects that ask to become jobs: what they ask is not the public's."""

import json

from kit.log import a_fact
from muster.projector.core.chains import LiveChains
from muster.projector.core.log import ProjectorCore
from muster.schemas.facts.workload import WorkloadSubmitRequested
from muster.schemas.job import JobSpec, TaskGroup, WorkloadRef


def test_the_public_is_not_shown_what_an_object_asks_to_run() -> None:
    asked = WorkloadSubmitRequested(
        job_id="A" * 26,
        spec=JobSpec(name="train", team="blue", task_groups=(TaskGroup(),), command=("run", "--token=secret")),
        principal="kubernetes:blue",
        origin=WorkloadRef(
            cluster="atlas", api_version="v1", kind="MusterJob", namespace="blue", name="train", uid="u-1"
        ),
    )
    core = ProjectorCore("atlas")
    core.watch(on=True)
    chains = LiveChains("atlas", seq=0)
    core.apply(a_fact("agent", "workload", "u-1", "submit-requested", asked))
    told = [slice_ for slice_ in chains.advance(core.take_shown(after=0), now_s=0.0) if slice_.audience == "public"]
    [fact] = json.loads(told[0].body)["facts"]
    assert (fact["name"], fact["body"]) == ("submit-requested", "")
