"""What pods tell of secrets, of garbage and of the control plane."""

from muster.guard.core.pods import PodView, project_pod, tally
from muster.kube.objects import JsonObject


def pod(*, owner: tuple[str, str] | None = None, node: str = "n1", **spec: object) -> JsonObject:
    owners = [{"kind": owner[0], "name": owner[1]}] if owner else []
    return {
        "metadata": {"name": "p", "namespace": "ml", "ownerReferences": owners},
        "spec": {"nodeName": node, **spec},
        "status": {"phase": "Running"},
    }


def test_secrets_are_found_wherever_a_pod_may_name_them() -> None:
    view = project_pod(
        pod(
            imagePullSecrets=[{"name": "pull"}],
            volumes=[
                {"name": "a", "secret": {"secretName": "volume"}},
                {
                    "name": "b",
                    "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "c"}}]},
                },
                {"name": "c", "configMap": {"name": "settings"}},
                {"name": "d", "emptyDir": {}},
            ],
            initContainers=[{"envFrom": [{"secretRef": {"name": "from"}}]}],
            containers=[
                {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}, {"name": "Y"}]}
            ],
        )
    )
    assert view.secrets == {"pull", "volume", "projected", "from", "key"}
    assert view.config_maps == {"c", "settings"}


def test_a_workload_is_who_made_the_pods() -> None:
    assert project_pod(pod(owner=("ReplicaSet", "web-6d4cf56db6"))).workload == ("Deployment", "web")
    assert project_pod(pod(owner=("ReplicaSet", "hand-made"))).workload == ("ReplicaSet", "hand-made")
    assert project_pod(pod(owner=("StatefulSet", "db"))).workload == ("StatefulSet", "db")
    assert project_pod(pod()).workload == ("Pod", "p")
    labelled = pod(owner=("Job", "x"))
    labelled["metadata"] = {"name": "p", "namespace": "ml", "labels": {"muster.dev/job": "abc"}}
    assert project_pod(labelled).workload == ("MusterJob", "abc")


def view(workload: str, node: str, *secrets: str, ended: bool = False) -> PodView:
    return PodView("ml", ("StatefulSet", workload), node, ended, frozenset(secrets))


def test_kubelets_list_each_secret_once_on_each_node() -> None:
    views = [view("t", "n1", "a", "b"), view("t", "n1", "a", "b"), view("t", "n2", "a"), view("u", "n1", "a")]
    found = tally(views, secrets_min=2)
    (one,) = found.workloads
    assert (one.name, one.pods, one.nodes, one.secrets, one.lists) == ("t", 3, 2, 2, 3)
    assert (found.busiest_node, found.watches_of_node) == ("n1", 2)


def test_pods_that_ended_cause_no_lists_and_are_counted() -> None:
    found = tally([view("t", "n1", "a", "b", ended=True), view("t", "n1", "a", "b")], secrets_min=1)
    assert (found.pods, found.terminated, found.workloads[0].pods) == (2, 1, 1)


def test_the_control_planes_own_pods_say_how_they_were_started() -> None:
    raw = pod(containers=[{"command": ["kube-apiserver", "--goaway-chance=0.001"], "args": ["--other=1"]}])
    raw["metadata"] = {"name": "kube-apiserver-a", "namespace": "kube-system"}
    manager = pod(containers=[{"command": ["kube-controller-manager", "--terminated-pod-gc-threshold=1000"]}])
    manager["metadata"] = {"name": "kcm", "namespace": "kube-system"}
    found = tally([project_pod(raw), project_pod(manager)], secrets_min=1)
    assert (found.goaway_chance, found.threshold) == (0.001, 1000)


def test_what_anybody_elses_pod_says_of_flags_does_not_count() -> None:
    raw = pod(containers=[{"command": ["kube-apiserver", "--goaway-chance=0.02"]}])
    assert tally([project_pod(raw)], secrets_min=1).goaway_chance is None
