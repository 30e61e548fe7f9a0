"""A Kubernetes API server in memory, over real HTTP on loopback, and a kubelet that runs what is bound.

    async with fake_kube() as kube:
        kube.add(PODS, pod("a"))                       # from inside, without a request
        connection = KubeConnection.plain(kube.url, user_agent="muster-test/1")
        await connection.create_subresource(PODS, "a", "binding", binding("a", "n1"), namespace="default")
        assert kube.count("list", "pods") == 0         # what was asked

It keeps what the contract suite (tests/contract/kube) says of a real server: resource versions, preconditions, uids,
finalizers, pages, selectors, streaming lists, bookmarks, 410 after `compact()`, binding, eviction, status, custom
resources. It checks no schemas, runs no admission, collects no garbage. `kube.faults` breaks it in every known way.
"""

from kit.kube.fake.asked import Logged
from kit.kube.fake.bearers import Bearer
from kit.kube.fake.faults import Faults, Rule
from kit.kube.fake.kubelet import EXIT_CODE, OUT_OF, RUN_S, FakeKubelet
from kit.kube.fake.samples import binding, custom_resource, node, pod
from kit.kube.fake.server import FakeKube, fake_kube
from kit.kube.fake.store import Refusal, Store

__all__ = [
    "EXIT_CODE",
    "OUT_OF",
    "RUN_S",
    "Bearer",
    "FakeKube",
    "FakeKubelet",
    "Faults",
    "Logged",
    "Refusal",
    "Rule",
    "Store",
    "binding",
    "custom_resource",
    "fake_kube",
    "node",
    "pod",
]
