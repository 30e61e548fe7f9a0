"""How the commands of each page are tested where they are not simply run as they stand.

A command that takes minutes is run smaller; one that a target of make or another test runs says which. Words that
stand for something (`ID`) are read from the running stack. Every entry says why, and is used by its page.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from documents import fills
from documents.fills import Fill

SHARED = "--no-examples"
"""Options of the stack of most pages."""

AS_STARTED = ""
"""Options of the stack that a reader starts first: with examples."""


@dataclass(frozen=True, slots=True)
class Instead:
    """One command of a page that is not run as it stands. said: as it stands there, without its comment.

    run: what is run instead. by: what runs exactly this: `make TARGET`, or a test as `path::name`. One of both.
    why: the reason. block: all of the block that begins with it.
    """

    said: str
    why: str
    run: str = ""
    by: str = ""
    block: bool = False

    def __post_init__(self) -> None:
        assert bool(self.run) != bool(self.by), f"{self.said}: say what is run instead, or what runs it"
        assert self.why, f"{self.said}: say why"


@dataclass(frozen=True, slots=True)
class Stand:
    """What the commands of one page need. `PAGE_DEFAULT` is for pages that are not in the table.

    stack: options of the `muster up` that runs beside them, None: nothing runs. fills: what words stand for.
    before: what the page takes for granted. settings: sections that stand in settings.json at the start. by: the test
    that runs the page instead of ours, as `path::name`, because it needs another place. apart: no block needs what
    another one did, and each is a test of its own.
    """

    stack: str | None = SHARED
    fills: Mapping[str, Fill] = field(default_factory=dict)
    before: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    instead: tuple[Instead, ...] = ()
    by: str = ""
    apart: bool = False

    @property
    def shares(self) -> bool:
        """Whether a stack of these options will do: pages of the same options have one together, and break nothing."""
        return self.stack is not None and not self.settings


MINUTES = "takes minutes at this size"
OWN_STACK = "`make up` is `muster up`: the stack beside this page was started so, with a smaller fleet"
UP = Instead("make up", OWN_STACK, run="make --dry-run up | grep -x '.venv/bin/muster up'")
WATCHED = Instead(
    ".venv/bin/muster submit --gpus 8 --name hello --team research --label sim.muster.dev/run-s=20 --watch"
    " -- python train.py --lr 3",
    "20 s of waiting show nothing that 1 s does not",
    run=".venv/bin/muster submit --gpus 8 --name hello --team research --label sim.muster.dev/run-s=1 --watch"
    " -- python train.py --lr 3",
)
CHOSEN = "another page may have had a decision before"
NEWEST_CHOICE = (
    "$(muster scale -o json | python -c 'import json, sys; "
    """print([one["id"] for one in json.load(sys.stdin) if one["id"].startswith("s")][0])')"""
)
TRIM = Instead(
    "muster log trim --archive old.jsonl.gz",
    "a log as young as this one is needed whole",
    by="tests/integration/stack/test_trimmed.py::test_services_that_never_ran_start_on_trimmed_logs_and_know_everything",
)
IN_CONTAINERS = "needs a Docker engine and some minutes: the test of the compose stack runs it"
COMPOSE = "docker compose -f compose/compose.yaml"
TEST_COMPOSE = "make test-compose"

PAGE_DEFAULT = Stand()
SMALLER_BENCHES = tuple(
    Instead(said, MINUTES, run=run)
    for said, run in (
        (
            ".venv/bin/muster bench surge --nodes 1750 --workloads 4000 -o json",
            ".venv/bin/muster bench surge --nodes 8 --workloads 20 -o json",
        ),
        (
            ".venv/bin/muster bench surge --nodes 1750 --rate 200 --duration 120 -o json",
            ".venv/bin/muster bench surge --nodes 8 --rate 5 --duration 1 -o json",
        ),
        (".venv/bin/muster bench log", ".venv/bin/muster bench log --facts 1000"),
        (
            ".venv/bin/muster bench placement",
            ".venv/bin/muster bench placement --nodes 100 --jobs 1000 --rounds 1",
        ),
        (
            ".venv/bin/muster bench cycle --gpus 14000 -o json",
            ".venv/bin/muster bench cycle --gpus 64 --pending 50 --queues 12 --changes 2 -o json",
        ),
        (
            ".venv/bin/muster bench cycle --gpus 140000 -o json",
            ".venv/bin/muster bench cycle --gpus 128 --pending 50 --queues 12 --changes 2 -o json",
        ),
        (".venv/bin/muster bench kueue -o json", ".venv/bin/muster bench kueue --share 0.01 -o json"),
        (
            ".venv/bin/muster simulate synthetic --gpus 14000 --jobs 100000 --days 7",
            ".venv/bin/muster simulate synthetic --gpus 128 --jobs 50 --days 0.2",
        ),
        (
            ".venv/bin/muster simulate failures --gpus 16384 --days 54 --seed 1",
            ".venv/bin/muster simulate failures --gpus 128 --days 1 --seed 1",
        ),
        (
            ".venv/bin/muster bench scale",
            ".venv/bin/muster bench scale --nodes 20 --pool 10 --decisions 5",
        ),
        (
            ".venv/bin/muster bench telemetry",
            ".venv/bin/muster bench telemetry --nodes 10 --interval 1 --rounds 1",
        ),
        (
            ".venv/bin/muster bench health",
            ".venv/bin/muster bench health --nodes 32 --gangs 1 --rate 80 --duration 1",
        ),
        (
            ".venv/bin/muster bench attach",
            ".venv/bin/muster bench attach --gpus 4 --limit 2 --switch 0.1",
        ),
        (
            ".venv/bin/muster bench faults --cycles 10000 --faults 0.05 --seed 1",
            ".venv/bin/muster bench faults --cycles 50 --faults 0.05 --seed 1",
        ),
        (
            ".venv/bin/muster bench ways DIR --out /tmp/ways",
            ".venv/bin/muster bench ways DIR --gpus 8 --out ways",
        ),
        (
            "PYTHONPATH=tests .venv/bin/python -m bench.scheduler_waiting",
            "PYTHONPATH=tests .venv/bin/python -m bench.scheduler_waiting --nodes 10 --waiting 20 --ends 3",
        ),
        (
            ".venv/bin/muster replay openb DIR",
            ".venv/bin/muster replay openb DIR --speedup 2000 --out out",
        ),
    )
)
"""Benchmarks take minutes: the same commands with smaller numbers."""

PAGES: Mapping[str, Stand] = {
    "README.md": Stand(
        stack=AS_STARTED,
        instead=(
            UP,
            WATCHED,
            Instead("make test", "this test is one of them", by="make test"),
            Instead(
                "docker build -f compose/Dockerfile -t muster:local .",
                "it needs a cluster: these are commands of the page that tells more",
                by="tests/kubernetes/test_docs.py::test_the_readme_says_what_the_installation_says",
                block=True,
            ),
        ),
    ),
    "CONTRIBUTING.md": Stand(
        stack=None,
        instead=(
            Instead("make install", "every other target begins with it", by="make install"),
            Instead("make check", "it is what CI runs, this test included", by="make check"),
        ),
    ),
    "docs/quickstart.md": Stand(
        stack=AS_STARTED, fills={"http://127.0.0.1:8080": fills.gateway}, instead=(UP, WATCHED)
    ),
    "docs/tutorials/first-job.md": Stand(
        stack=AS_STARTED,
        fills={"ID": fills.newest_job},
        instead=(
            Instead(
                "make install web",
                "it installs into .venv, which is there, and builds the dashboard",
                run="make --dry-run install web > commands.txt",
            ),
            Instead(".venv/bin/muster up --nodes 16", OWN_STACK, run="muster status"),
        ),
    ),
    "docs/tutorials/first-quota.md": Stand(stack=AS_STARTED),
    "docs/tutorials/first-gpu.md": Stand(
        stack=AS_STARTED,
        instead=(
            Instead("muster scale s000001", CHOSEN, run=f"muster scale {NEWEST_CHOICE}"),
            Instead(
                "muster device detach --request s000001", CHOSEN, run=f"muster device detach --request {NEWEST_CHOICE}"
            ),
        ),
    ),
    "docs/tutorials/first-upgrade.md": Stand(stack=AS_STARTED),
    "docs/how-to/move-a-job.md": Stand(
        stack=None,
        fills={"DIR": fills.state_dir, "ID": fills.newest_job},
    ),
    "docs/how-to/sick-gpu.md": Stand(fills={"127.0.0.1:9400": fills.exporter_address}),
    "docs/how-to/full-log.md": Stand(
        fills={"127.0.0.1:9464": fills.metrics_address},
        instead=(TRIM,),
    ),
    "docs/how-to/back-up-and-restore.md": Stand(
        fills={"NEW": fills.restored_state_dir},
        instead=(
            Instead(
                "muster up --state-dir NEW --detach",
                "on ports that are free",
                run="muster up --state-dir NEW --detach --http-port 0",
            ),
            Instead(
                "muster queue --all --state-dir NEW",
                "the restored stack is stopped afterwards",
                run="muster queue --all --state-dir NEW\nmuster down --state-dir NEW",
            ),
        ),
    ),
    "docs/how-to/rotate-tokens.md": Stand(
        instead=(
            Instead(
                "muster token revoke TOKEN_ID",
                "the token that the page made",
                run="muster token revoke $(muster token list -o json | python -c 'import json, sys; "
                """print(*[one["id"] for one in json.load(sys.stdin) if one["principal"] == "ci"])')""",
            ),
        ),
    ),
    "docs/troubleshooting.md": Stand(
        stack=AS_STARTED,
        fills={"ID": fills.newest_job, "127.0.0.1:9464": fills.metrics_address},
    ),
    "docs/install.md": Stand(
        instead=(
            Instead(
                "make wheel",
                "the dashboard in it takes a minute to build",
                run="python -m build --wheel --no-isolation --outdir dist $(dirname $(readlink -f Makefile))\n"
                "ls dist/gpumuster-*.whl",
            ),
        ),
    ),
    "docs/permissions.md": Stand(stack=None),
    "docs/running-jobs.md": Stand(
        fills={"ID": fills.newest_job},
        instead=(
            Instead(
                "muster exec ID -- nvidia-smi",
                "needs a cluster with processes, and kubectl: the test has one that notes how it is called",
                by="tests/unit/cli/test_run.py::"
                "test_exec_enters_the_pod_with_the_users_kubectl_and_ends_as_the_command",
                block=True,
            ),
        ),
    ),
    "docs/integration.md": Stand(
        fills={"http://127.0.0.1:8080": fills.gateway},
        instead=(
            Instead(
                "import asyncio, os",
                "it listens until somebody ends it",
                by="tests/integration/stack/test_integration_page.py::test_from_python",
                block=True,
            ),
            Instead(
                'curl -fsS "$MUSTER_URL/v1/jobs"',
                "it listens until somebody ends it, with a program that has to be built",
                by="tests/integration/stack/test_integration_page.py::test_from_the_command_line_of_nats",
                block=True,
            ),
        ),
    ),
    "docs/webhooks.md": Stand(
        settings={"webhooks": [{"name": "ci", "url": "http://127.0.0.1:9/", "events": ["job-ended"]}]},
        instead=(
            Instead(
                "import base64, hashlib, hmac, time",
                "it is a function, which has to be called",
                by="tests/unit/notifier/test_docs.py::test_the_pages_way_to_check_a_signature_tells_true_from_false",
                block=True,
            ),
            Instead(
                "muster webhook secret > /etc/muster/ci.key && chmod 600 /etc/muster/ci.key",
                "tests write nothing to /etc",
                run="muster webhook secret > ci.key && chmod 600 ci.key",
            ),
            Instead(
                "muster webhook test ci",
                "nobody receives anything here: 4 says so; what a receiver gets is tried in "
                "tests/unit/cli/test_webhooks.py",
                run="muster webhook test ci && exit 1 || test $? -eq 4",
            ),
        ),
    ),
    "docs/audit.md": Stand(
        stack=None,
        instead=(
            Instead(
                "kubectl -n muster create secret generic muster-guard-audit",
                "needs a control plane: that test runs it there",
                by="tests/kubernetes/test_audit_component.py::"
                "test_the_api_server_takes_the_secret_of_the_page_and_all_that_the_component_adds",
                block=True,
            ),
        ),
    ),
    "docs/identity.md": Stand(
        stack=None,
        instead=(
            Instead(
                "kubectl -n muster create secret tls muster-gateway-tls",
                "needs a control plane: that test runs it there",
                by="tests/kubernetes/test_identity_component.py::"
                "test_the_gateway_speaks_tls_with_the_secret_that_the_page_makes",
                block=True,
            ),
        ),
    ),
    "docs/operations.md": Stand(
        fills={"DIR": fills.new_state_dir, "NEW": fills.restored_state_dir},
        instead=(
            Instead(
                "muster up --nodes 1750 --gpus-per-node 8 --state-dir DIR --detach",
                "eight nodes are up sooner; on ports that are free",
                run="muster up --nodes 8 --gpus-per-node 8 --state-dir DIR --detach --http-port 0",
            ),
            Instead(
                "muster log import fed.jsonl.gz --log fed --state-dir NEW && muster up --state-dir NEW",
                "nobody would press Ctrl-C",
                run="muster log import fed.jsonl.gz --log fed --state-dir NEW\n"
                "muster up --state-dir NEW --detach --http-port 0 && muster down --state-dir NEW",
            ),
            TRIM,
            Instead(
                'muster log skip SEQ --service scheduler --reason "issue 123"',
                "a service has to stand still first",
                by="tests/integration/stack/test_skip.py::"
                "test_a_poisoned_service_stands_still_alone_until_the_fact_is_skipped",
            ),
            Instead(
                "muster log repair-fence --service scheduler",
                "a fence has to be broken first",
                by="tests/security/test_compromised_service.py::"
                "test_a_broken_fence_is_named_and_repaired_by_an_operator_and_the_service_leads_again",
            ),
        ),
    ),
    "docs/concepts/devices.md": Stand(
        fills={
            "GPU-0c1d...": fills.attached_device,
        },
        instead=(
            Instead(
                "muster demo devices",
                "four stories of half a minute each",
                by="tests/integration/stack/test_devices.py::test_every_demonstration_passes_and_breaks_no_invariant",
            ),
        ),
    ),
    "docs/concepts/fabric-simulator.md": Stand(fills={"8070/east": fills.fabric_address}),
    "docs/concepts/preflight.md": Stand(
        settings={"preflight": {"suites": [{"name": "disk", "checks": [{"check": "storage"}]}]}}
    ),
    "docs/concepts/telemetry.md": Stand(fills={"127.0.0.1:9400": fills.exporter_address}),
    "docs/concepts/federation.md": Stand(
        instead=(
            Instead(
                "muster demo transition",
                "two clusters more beside the stack of this page",
                by="tests/integration/federation/test_transition.py"
                "::test_a_team_that_goes_on_submitting_moves_over_and_notices_nothing",
            ),
        ),
    ),
    "docs/concepts/upgrades.md": Stand(
        instead=(
            Instead(
                ".venv/bin/muster demo upgrade",
                "takes a minute at this size; the test that it is runs it whole",
                run=".venv/bin/muster demo upgrade --nodes 12 --max-unavailable 2",
            ),
        ),
    ),
    "docs/concepts/scheduling.md": Stand(
        before="cp examples/three-teams.yaml .",
        instead=(
            Instead(
                "muster reserve night-train --gpus 64 --model H100 --for-queue research --starts 2026-11-23T20:00 "
                "--for 10h --weekly",
                "its day may be over",
                run="muster reserve night-train --gpus 64 --model H100 --for-queue research "
                "--starts $(date -d tomorrow +%F)T20:00 --for 10h --weekly",
            ),
        ),
    ),
    "docs/clusters.md": Stand(
        stack=None,
        fills={"DIR": fills.new_state_dir},
        instead=(
            Instead(
                f"{COMPOSE} -f compose/compose.federation.yaml up --detach --build",
                "needs a Docker engine: that test starts a federation in containers",
                by="tests/compose/test_federation.py::test_jobs_from_this_machine_run_in_either_cell",
            ),
            Instead(
                "muster init kubernetes --into k8s/overlays/centre/secrets "
                "--settings k8s/overlays/centre/settings.yaml",
                "it needs two clusters: a real API server is asked about every object of both",
                by="tests/kubernetes/test_federated_manifests.py"
                "::test_the_api_server_takes_every_object_and_lets_every_pod_in",
                block=True,
            ),
        ),
    ),
    "docs/compose.md": Stand(
        instead=(
            *(
                Instead(f"{COMPOSE} {words}", IN_CONTAINERS, by=TEST_COMPOSE)
                for words in (
                    "up --detach --build",
                    "ps",
                    "down",
                    "down --volumes",
                    "run --rm cli queue",
                    "cp init:/state/host ./muster-host",
                    "cp init:/state/grafana/admin-password ./grafana-password",
                )
            ),
            Instead(
                f"KUBECONFIG_FILE=./kubeconfig {COMPOSE} -f compose/compose.kubernetes.yaml up --detach --build",
                "it needs a cluster that containers reach; what compose makes of both files is looked at",
                by="tests/compose/test_kubernetes.py::test_agent_and_guard_keep_their_credentials_and_see_the_kubeconfig",
            ),
            Instead(
                f"TLS_DIR=$PWD/tls {COMPOSE} -f compose/compose.identity.yaml up --detach --build",
                "it needs a provider; what compose makes of both files is looked at",
                by="tests/compose/test_identity.py::test_the_gateway_gets_the_directory_and_keeps_its_own_part",
            ),
            Instead(
                "muster submit --state-dir ./muster-host examples/single-gpu.yaml",
                "that directory comes out of a container; the state directory of the stack beside this page is like it",
                run="muster submit examples/single-gpu.yaml",
            ),
            Instead(
                "muster watch --state-dir ./muster-host",
                "it follows until Ctrl-C",
                run="timeout --signal=INT 5 muster watch || test $? -eq 124",
            ),
            Instead(TEST_COMPOSE, IN_CONTAINERS, by=TEST_COMPOSE),
        ),
    ),
    "docs/kubernetes.md": Stand(
        by="tests/kubernetes/test_docs.py::test_commands_of_the_installation",
        instead=(
            Instead("docker build -f compose/Dockerfile -t muster:local .", IN_CONTAINERS, by=TEST_COMPOSE),
            Instead(
                "kubectl -n muster port-forward service/gateway 8080 &",
                "KWOK's pods answer nobody: what they would run, runs beside them on loopback",
                run="kubectl -n muster get service gateway -o jsonpath='{.spec.ports[0].port}' | grep -x 8080",
            ),
            Instead(
                "kubectl apply --server-side -k k8s/overlays/production",
                "the same cluster holds the other overlay",
                by="tests/kubernetes/test_manifests.py::test_the_api_server_takes_every_object",
            ),
            Instead("make test-k8s", "this test is one of them", by="make test-k8s"),
        ),
    ),
    "docs/benchmarks.md": Stand(
        stack=None,
        apart=True,
        fills={"DIR": fills.small_trace},
        instead=(
            Instead(
                "PYTHONPATH=tests .venv/bin/python -m bench.dashboards",
                "it needs Chromium; that test runs it small",
                by="tests/browser/test_bench.py::test_the_bench_of_dashboards_follows_facts_to_pixels",
            ),
            Instead(
                "PYTHONPATH=tests .venv/bin/python -m bench.fleet_frames",
                "it needs Chromium; that test runs it with one look",
                by="tests/browser/test_bench.py::test_the_bench_of_frames_sees_each_colouring_drawn",
            ),
            Instead(
                "PYTHONPATH=tests .venv/bin/python -m bench.jobs_table",
                "it needs Chromium; that test runs it small",
                by="tests/browser/test_bench.py::test_the_bench_of_the_table_of_jobs_sees_its_frames",
            ),
            Instead(
                ".venv/bin/muster demo transition",
                "half a minute with two clusters; that test plays it",
                by="tests/integration/federation/test_transition.py"
                "::test_a_team_that_goes_on_submitting_moves_over_and_notices_nothing",
            ),
            Instead(
                "PYTHONPATH=tests .venv/bin/python -m bench.reflector",
                "it needs a real API server; that test runs it small",
                by="tests/kubernetes/test_bench.py::test_the_bench_of_the_reflector_compares_its_ways",
            ),
            Instead(
                "PYTHONPATH=tests .venv/bin/python -m bench.reflector --outage 60 --reflectors 20 --pods 500",
                "it needs a real API server, and a minute without it",
                by="tests/kubernetes/test_bench.py::test_the_bench_of_the_reflector_compares_its_ways",
            ),
            Instead(
                ".venv/bin/muster guard demo",
                "five minutes of real API servers; that test tells one story",
                by="tests/kubernetes/test_guard_commands.py::test_a_story_of_the_demonstration_is_told_with_figures_before_and_after",
            ),
            Instead(
                ".venv/bin/muster bench kubernetes --workloads 4000 --nodes 1750",
                "seven control planes; that test runs it small",
                by="tests/kubernetes/test_bench.py::test_all_contenders_are_compared_in_one_run",
            ),
            *SMALLER_BENCHES,
        ),
    ),
}


def stand_of(page: str) -> Stand:
    """The page's entry, or what holds for pages that need nothing special."""
    return PAGES.get(page, PAGE_DEFAULT)
