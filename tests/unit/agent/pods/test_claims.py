"""A claim is made, allocated, looked at, and only then is its pod ready; what is refused is given back."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent.core.kubernetes.calls import Create, Delete, Kind, Merge, Read, Refused, Replace
from muster.agent.core.kubernetes.claims import FINALIZER, project_claim
from muster.kube.objects import JsonObject, at, mapping, objects, sequence, text, uid_of, version_of
from unit.agent.pods.allocating import NODE, Allocator, order, place
from unit.agent.pods.claim_store import ClaimStore

OTHER = "ZYXWVUTSRQPONMLKJIHGFEDCBA"


def foreign(store: ClaimStore, number: int, *, name: str = "foreign", admin: bool = False) -> None:
    """Somebody else allocated a device."""
    made = store.make(Create(Kind.CLAIMS, "default", name, {"metadata": {"name": name, "namespace": "default"}}))
    claim = store.make(Read(Kind.CLAIMS, "default", name))
    assert made == claim
    body: JsonObject = dict(claim.reply)  # type: ignore[union-attr]
    result: JsonObject = {"request": "r", "driver": place(0).driver, "pool": NODE, "device": f"gpu-{number}"}
    status: JsonObject = {
        "allocation": {"devices": {"results": [{**result, **({"adminAccess": True} if admin else {})}]}}
    }
    store.make(Replace(Kind.CLAIMS, "default", name, {**body, "status": status}, subresource="status"))


def holding(store: ClaimStore) -> list[str]:
    """Devices that claims hold, with repetition."""
    return [one.device for claim in store.claims() for one in project_claim(claim).places]


def test_a_claim_is_made_protected_then_allocated_at_its_version_then_looked_at() -> None:
    agent = Allocator(ClaimStore())
    assert not agent.prepare(order(1, 3))
    created = agent.work_once()
    assert isinstance(created, Create)
    assert sequence(created.body, "metadata", "finalizers") == [FINALIZER]
    written = agent.work_once()
    assert isinstance(written, Replace)
    assert (written.subresource, version_of(written.body)) == ("status", "1")
    assert agent.ready == []
    agent.settle()
    assert len(agent.ready) == 1
    assert agent.prepare(order(1, 3))
    assert holding(agent.store) == ["gpu-1", "gpu-3"]


def test_an_allocation_names_devices_node_and_pod() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(2))
    agent.settle()
    (claim,) = agent.store.claims()
    (owner,) = objects(claim, "metadata", "ownerReferences")
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "pod-uid", True)
    (result,) = objects(claim, "status", "allocation", "devices", "results")
    assert result == {"request": "gpus", "driver": "gpu.nvidia.com", "pool": NODE, "device": "gpu-2"}
    (term,) = objects(claim, "status", "allocation", "nodeSelector", "nodeSelectorTerms")
    assert objects(term, "matchFields")[0]["values"] == [NODE]
    assert [one["uid"] for one in objects(claim, "status", "reservedFor")] == ["pod-uid"]


def test_a_new_leader_adopts_what_the_old_one_allocated() -> None:
    store = ClaimStore()
    first = Allocator(store)
    first.prepare(order(0))
    first.settle()
    second = Allocator(store)
    while second.watch_once():
        pass
    calls = len(store.calls)
    second.prepare(order(0))
    assert len(second.ready) == 1
    assert len(store.calls) == calls


def test_a_new_leader_takes_up_a_claim_that_was_only_made() -> None:
    store = ClaimStore()
    first = Allocator(store)
    first.prepare(order(0))
    first.work_once()
    second = Allocator(store)
    second.prepare(order(0))
    second.settle()
    assert len(second.ready) == 1
    assert holding(store) == ["gpu-0"]


def test_a_device_that_somebody_else_allocated_is_refused_and_ours_given_back() -> None:
    agent = Allocator(ClaimStore())
    foreign(agent.store, 1)
    agent.prepare(order(1))
    agent.settle()
    assert agent.ready == []
    assert ["foreign" in reason for reason in agent.refused.values()] == [True]
    assert holding(agent.store) == ["gpu-1"]
    assert agent.needs.counts.conflicts == 1


def test_access_for_administrators_holds_nothing() -> None:
    agent = Allocator(ClaimStore())
    foreign(agent.store, 1, admin=True)
    agent.prepare(order(1))
    agent.settle()
    assert len(agent.ready) == 1


def test_a_device_that_went_is_refused_without_a_call() -> None:
    agent = Allocator(ClaimStore())
    assert not agent.prepare(order(9))
    assert agent.store.calls == []
    assert len(agent.refused) == 1


def test_a_policy_that_refuses_takes_the_gang_back() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    agent.work_once()
    agent.answer_once(Refused(403, "Forbidden", "policy muster-claims denied it"))
    assert ["denied it" in reason for reason in agent.refused.values()] == [True]


def test_a_change_by_another_is_read_and_allocated_anew() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    agent.work_once()
    claim = agent.store.claims()[0]
    change = {"metadata": {"finalizers": [FINALIZER, "other"], "resourceVersion": version_of(claim)}}
    agent.store.make(Merge(Kind.CLAIMS, "muster-jobs", text(claim, "metadata", "name"), change))
    agent.settle()
    assert len(agent.ready) == 1


def test_what_a_pod_had_goes_with_it() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    agent.settle()
    agent.release(order(0))
    agent.settle()
    assert agent.store.claims() == []


@pytest.mark.parametrize("steps", range(4))
def test_a_release_at_any_step_leaves_nothing(steps: int) -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    for _ in range(steps):
        agent.work_once()
    agent.release(order(0))
    agent.settle()
    assert agent.store.claims() == []
    assert agent.ready == []


def test_a_release_while_a_call_is_under_way_deletes_what_it_made() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    task = agent.work.take(agent.now)
    assert task is not None
    agent.release(order(0))
    agent.work.finished(task, agent.store.make(task.call), agent.now)
    agent.settle()
    assert agent.store.claims() == []


def test_a_pod_that_comes_anew_gets_a_claim_of_its_own() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0), uid="first")
    agent.settle()
    agent.release(order(0))
    agent.prepare(order(1), uid="second")
    agent.settle()
    (claim,) = agent.store.claims()
    assert project_claim(claim).owner == "second"
    assert len(agent.ready) == 2


def test_the_next_job_does_not_wait_for_the_last_claim_to_go() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    agent.settle()
    agent.release(order(0))
    agent.prepare(order(0, job=OTHER), uid="next")
    agent.settle()
    assert [key.job_id for key in agent.ready][1:] == [OTHER]
    assert holding(agent.store) == ["gpu-0"]


def test_a_claim_that_an_object_made_for_its_pod_is_protected_and_allocated() -> None:
    agent = Allocator(ClaimStore())
    agent.own.adopted.add(OTHER)
    assert not agent.prepare(order(0, 1, job=OTHER), uid="theirs")
    agent.settle()
    assert agent.store.calls == []
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "theirs", "controller": True}
    request = {"name": "mine", "exactly": {"deviceClassName": "gpu.muster.dev", "count": 2}}
    body: JsonObject = {
        "metadata": {"name": "made", "namespace": "muster-jobs", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
    }
    agent.store.make(Create(Kind.CLAIMS, "muster-jobs", "made", body))
    agent.settle()
    assert len(agent.ready) == 1
    (claim,) = agent.store.claims()
    assert FINALIZER in sequence(claim, "metadata", "finalizers")
    assert {text(one, "request") for one in objects(claim, "status", "allocation", "devices", "results")} == {"mine"}


def of_a_template(agent: Allocator, *, count: int = 1, status: JsonObject | None = None, **spec: object) -> None:
    """The claim controller makes the claim of pod `theirs`."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "theirs", "controller": True}
    request = {"name": "mine", "exactly": {"deviceClassName": "gpu.muster.dev", "count": count}}
    metadata: JsonObject = {"name": "made", "namespace": "muster-jobs", "ownerReferences": [owner]}
    body: JsonObject = {"metadata": metadata, "spec": {"devices": {"requests": [request], **spec}}}
    agent.store.make(Create(Kind.CLAIMS, "muster-jobs", "made", body))
    if status is not None:
        there = agent.store.objects[Kind.CLAIMS, "muster-jobs", "made"]
        agent.store.make(Replace(Kind.CLAIMS, "muster-jobs", "made", {**there, "status": status}, subresource="status"))


def adopted(*devices: int) -> Allocator:
    """An agent that prepares a pod that an object made."""
    agent = Allocator(ClaimStore())
    agent.own.adopted.add(OTHER)
    agent.prepare(order(*devices, job=OTHER), uid="theirs")
    return agent


def test_a_claim_that_an_object_made_is_known_as_ours_before_it_holds_a_device() -> None:
    """Else its devices would be others', and not be there for Muster."""
    agent = adopted(0)
    of_a_template(agent)
    agent.settle()
    views = [project_claim(raw) for _, raw in agent.store.events if raw is not None]
    assert all(view.job for view in views if view.places)
    assert agent.needs.holders.foreign([place(0)]) == []


def test_what_the_claim_says_to_its_driver_is_part_of_the_allocation() -> None:
    agent = adopted(0)
    said = {"requests": ["mine"], "opaque": {"driver": "gpu.nvidia.com", "parameters": {"sharing": "none"}}}
    of_a_template(agent, config=[said])
    agent.settle()
    (claim,) = agent.store.claims()
    assert objects(claim, "status", "allocation", "devices", "config") == [{**said, "source": "FromClaim"}]


def allocation(device: str, *uids: str) -> JsonObject:
    result = {"request": "mine", "driver": "gpu.nvidia.com", "pool": "node-1", "device": device}
    reserved = [{"resource": "pods", "name": "p", "uid": uid} for uid in uids]
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}


def test_a_pod_with_a_claim_is_not_bound_where_kubelets_pick() -> None:
    agent = adopted()
    assert ["not allocated by claims" in reason for reason in agent.refused.values()] == [True]


def test_a_claim_of_an_attempt_before_is_given_back_before_it_is_allocated_anew() -> None:
    agent = adopted(0)
    of_a_template(agent, status=allocation("gpu-3", "theirs"))
    agent.settle()
    assert len(agent.ready) == 1
    assert holding(agent.store) == ["gpu-0"]
    given = [objects(raw, "status", "allocation", "devices", "results") for _, raw in agent.store.events if raw]
    devices = [[text(one, "device") for one in results] for results in given]
    assert [] in devices[devices.index(["gpu-3"]) :], "the API server lets nobody change an allocation"


def test_a_claim_that_another_pod_uses_is_not_taken_from_it() -> None:
    agent = adopted(0)
    of_a_template(agent, status=allocation("gpu-3", "theirs", "somebody"))
    agent.settle()
    assert ["in use by another pod" in reason for reason in agent.refused.values()] == [True]
    assert holding(agent.store) == ["gpu-3"]


def test_a_claim_of_a_pod_of_others_that_runs_is_asked_about_by_the_pods_own_name() -> None:
    """After a change of leader no need of it is known."""
    first = adopted(0)
    of_a_template(first)
    first.store.pod("muster-jobs", "p", "theirs", phase="Running")
    first.settle()
    second = Allocator(first.store)
    second.prepare(order(0))
    second.settle()
    assert ["holds a device of this placement" in reason for reason in second.refused.values()] == [True]
    assert holding(first.store) == ["gpu-0"]


def test_a_claim_for_another_number_of_devices_is_refused() -> None:
    agent = Allocator(ClaimStore())
    agent.own.adopted.add(OTHER)
    agent.prepare(order(0, job=OTHER), uid="theirs")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "theirs", "controller": True}
    request = {"name": "mine", "exactly": {"deviceClassName": "gpu.muster.dev", "count": 2}}
    spec = {"devices": {"requests": [request]}}
    body: JsonObject = {
        "metadata": {"name": "made", "namespace": "muster-jobs", "ownerReferences": [owner]},
        "spec": spec,
    }
    agent.store.make(Create(Kind.CLAIMS, "muster-jobs", "made", body))
    agent.settle()
    assert ["asks for 2 devices, but 1 were chosen" in reason for reason in agent.refused.values()] == [True]


def services(store: ClaimStore) -> list[JsonObject]:
    return [one for (kind, _, _), one in store.objects.items() if kind is Kind.SERVICES]


def test_pods_of_a_gang_meet_by_a_service_that_goes_with_its_first_pod_or_before() -> None:
    agent = Allocator(ClaimStore())
    gang = order(replicas=2)
    agent.needs.begin(gang, agent.now)
    agent.prepare(gang, 1, uid="second")
    agent.settle()
    assert services(agent.store) == []
    agent.prepare(gang, 0, uid="first")
    agent.settle()
    (service,) = services(agent.store)
    assert [one["uid"] for one in objects(service, "metadata", "ownerReferences")] == ["first"]
    agent.needs.end(gang, agent.now)
    agent.settle()
    assert services(agent.store) == []


def test_a_gang_that_may_lose_its_first_pod_keeps_its_service() -> None:
    agent = Allocator(ClaimStore())
    gang = order(replicas=2)
    group = gang.spec.task_groups[0].model_copy(update={"min_replicas": 1})
    elastic = dataclasses.replace(gang, spec=gang.spec.model_copy(update={"task_groups": (group,)}))
    agent.prepare(elastic, 0, uid="first")
    agent.settle()
    (service,) = services(agent.store)
    assert objects(service, "metadata", "ownerReferences") == []


def test_a_single_pod_has_no_service() -> None:
    agent = Allocator(ClaimStore())
    agent.needs.begin(order(), agent.now)
    agent.prepare(order())
    agent.needs.end(order(), agent.now)
    assert agent.work_once() is None


def test_pods_without_chosen_devices_need_no_claim() -> None:
    agent = Allocator(ClaimStore())
    assert agent.prepare(order())
    assert agent.work_once() is None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["a-works", "b-works", "a-sees", "b-sees"]), max_size=24))
def test_of_two_who_allocate_one_device_at_most_one_may_bind(steps: list[str]) -> None:
    store = ClaimStore()
    both = {"a": Allocator(store), "b": Allocator(store)}
    both["a"].prepare(order(0), uid="a")
    both["b"].prepare(order(0, job=OTHER), uid="b")
    for step in steps:
        agent = both[step[0]]
        agent.work_once() if step.endswith("works") else agent.watch_once()
    for _ in range(3):
        for agent in both.values():
            agent.settle()
    ready = [name for name, agent in both.items() if agent.ready]
    assert len(ready) <= 1
    if ready:
        held = [project_claim(claim) for claim in store.claims() if project_claim(claim).places]
        assert [claim.reserved for claim in held] == [(ready[0],)]


def test_a_delete_names_the_uid_so_that_nothing_newer_goes() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    agent.settle()
    (claim,) = agent.store.claims()
    agent.release(order(0))
    call = agent.work_once()
    assert isinstance(call, Delete)
    assert call.uid == uid_of(claim)
    assert at(mapping(claim, "metadata"), "deletionTimestamp") is None


def bound_by_an_earlier_leader(store: ClaimStore) -> Allocator:
    """A new leader, which has seen the claim of a pod that runs and is prepared no more."""
    first = Allocator(store)
    first.prepare(order(0))
    first.settle()
    second = Allocator(store)
    while second.watch_once():
        pass
    return second


def test_a_new_leader_takes_back_what_a_pod_had_that_it_never_prepared() -> None:
    agent = bound_by_an_earlier_leader(ClaimStore())
    agent.release(order(0))
    agent.settle()
    assert agent.store.claims() == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", ""])
def test_a_claim_of_a_pod_that_is_over_is_taken_back_instead_of_refusing_the_next(phase: str) -> None:
    agent = bound_by_an_earlier_leader(ClaimStore())
    (pod,) = (key for key in agent.store.objects if key[0] is Kind.PODS)
    if phase:
        agent.store.pod(pod[1], pod[2], "pod-uid", phase=phase)
    else:
        del agent.store.objects[pod]
    agent.prepare(order(0, job=OTHER), uid="next")
    agent.settle()
    assert [key.job_id for key in agent.ready] == [OTHER]
    assert holding(agent.store) == ["gpu-0"]


def test_a_claim_of_a_pod_that_runs_refuses_the_next() -> None:
    agent = bound_by_an_earlier_leader(ClaimStore())
    agent.prepare(order(0, job=OTHER), uid="next")
    agent.settle()
    assert agent.ready == []
    assert len(agent.refused) == 1


def test_a_claim_that_is_deleted_before_it_was_looked_at_is_refused() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    while agent.work_once() is not None:
        pass
    (claim,) = agent.store.claims()
    name = text(claim, "metadata", "name")
    agent.store.make(Delete(Kind.CLAIMS, "muster-jobs", name, uid_of(claim)))
    agent.store.events[:] = agent.store.events[-1:]  # the rest was never told
    agent.settle()
    assert agent.ready == []
    assert ["deallocated" in reason for reason in agent.refused.values()] == [True]


def test_a_claim_that_is_gone_before_it_was_looked_at_is_refused() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    while agent.work_once() is not None:
        pass
    (key,) = ((namespace, name) for kind, namespace, name in agent.store.objects if kind is Kind.CLAIMS)
    agent.store.events[:] = [(key, None)]
    agent.settle()
    assert ["was deleted" in reason for reason in agent.refused.values()] == [True]


def test_an_older_view_of_our_claim_is_no_reason_to_give_up() -> None:
    agent = Allocator(ClaimStore())
    agent.prepare(order(0))
    while agent.work_once() is not None:
        pass
    assert agent.watch_once()  # as it was made, without devices
    assert (agent.ready, agent.refused) == ([], {})
    assert agent.watch_once()
    assert len(agent.ready) == 1


def test_a_new_leader_that_finds_its_claim_written_looks_at_others_too() -> None:
    agent = bound_by_an_earlier_leader(ClaimStore())
    (pod,) = (key for key in agent.store.objects if key[0] is Kind.PODS)
    later = Allocator(agent.store)
    later.prepare(order(0, job=OTHER), uid="next")
    while later.work_once() is not None:  # it writes, and dies before it looks
        pass
    agent.store.pod(pod[1], pod[2], "pod-uid", phase="Succeeded")
    heir = Allocator(agent.store)
    while heir.watch_once():
        pass
    heir.prepare(order(0, job=OTHER), uid="next")
    heir.settle()
    assert [key.job_id for key in heir.ready] == [OTHER]
    assert holding(agent.store) == ["gpu-0"]
