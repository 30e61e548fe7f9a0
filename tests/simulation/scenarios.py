"""Scenarios drawn for properties."""

from hypothesis import strategies as st

NODES = 3


GPUS = 4


LEAVES = ("a", "b", "c", "d")


SLICE_S = 3600


quotas = st.one_of(st.just({}), st.integers(0, 8).map(lambda gpus: {"gpu": gpus}))


weights = st.sampled_from((0.5, 1.0, 2.0))


@st.composite
def queues(draw: st.DrawFn) -> list[dict[str, object]]:
    """Two teams of two, under one organisation or not, with or without quota."""
    tops = [{"name": "org", "quota": draw(quotas)}] if draw(st.booleans()) else []
    parent = {"parent": "org"} if tops else {}
    teams = [{"name": name, "quota": draw(quotas), "weight": draw(weights), **parent} for name in ("x", "y")]
    leaves = [
        {"name": name, "parent": "x" if at < 2 else "y", "quota": draw(quotas), "weight": draw(weights)}
        for at, name in enumerate(LEAVES)
    ]
    limited = draw(st.sampled_from(LEAVES))
    for leaf in leaves:
        if leaf["name"] == limited and leaf["quota"]:
            leaf["borrowing_limit"] = {"gpu": draw(st.integers(0, 4))}
    return [*tops, *teams, *leaves]


@st.composite
def jobs(draw: st.DrawFn) -> list[dict[str, object]]:
    """First those that run, as many as there is room for; then those that wait."""
    found: list[dict[str, object]] = []
    for node in range(NODES):
        room = GPUS
        while room and draw(st.integers(0, 4)):
            gpus = draw(st.integers(1, room))
            room -= gpus
            found.append({"gpus": gpus, "state": "running", "node": f"n-{node}", **_sort(draw, running=True)})
    for _ in range(draw(st.integers(0, 8))):
        gpus = draw(st.sampled_from((0.5, 1, 2, 3, 4)))
        replicas = draw(st.integers(1, 3))
        elastic = {"min_replicas": draw(st.integers(1, replicas))} if draw(st.booleans()) else {}
        state = draw(st.sampled_from(("pending", "pending", "pending", "held")))
        found.append({"gpus": gpus, "replicas": replicas, "state": state, **elastic, **_sort(draw, running=False)})
    return [{"name": f"j{at}", **job} for at, job in enumerate(found)]


def _sort(draw: st.DrawFn, *, running: bool) -> dict[str, object]:
    sort: dict[str, object] = {
        "queue": draw(st.sampled_from(LEAVES)),
        "priority": draw(st.sampled_from((20, 50, 80))),
        "preemptible": draw(st.sampled_from((True, True, True, False))),
        "min_slice_s": SLICE_S,
    }
    if running:
        started_s = draw(st.sampled_from((600, 3601, 20_000)))
        sort["started_s_ago"] = started_s
        if draw(st.booleans()):
            sort["checkpoint_s_ago"] = draw(st.integers(0, started_s))
    else:
        sort["submitted_s_ago"] = draw(st.sampled_from((0, 60, 5000)))
    return sort


scenarios = st.fixed_dictionaries(
    {"nodes": st.just([{"name": "n", "gpus": GPUS, "count": NODES}]), "queues": queues(), "jobs": jobs()}
)
