"""Programs are taken from the environment, then from the cache, then built: once, whole, by one process at a time."""

import os
import stat
import threading
from pathlib import Path

import pytest

from muster_tools.local_kubernetes import bounds
from muster_tools.local_kubernetes.errors import BuildFailedError, NoProgramsError
from muster_tools.local_kubernetes.programs import (
    MODULES,
    GoModule,
    build,
    command_of,
    digest_of,
    locate,
    module_dir,
    variable_of,
)

FAKE_GO = """#!/bin/sh
echo built >> "$GO_SAYS"
[ -n "$GO_FAILS" ] && { echo "no such module" >&2; exit 1; }
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && out=$2
  shift
done
printf '#!/bin/sh\\n' > "$out/tool"
chmod +x "$out/tool"
"""


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that only writes down that it was asked; answers the file where it does."""
    path = program(tmp_path / "bin" / "go")
    path.write_text(FAKE_GO)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GO_SAYS", str(tmp_path / "said"))
    return tmp_path / "said"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoModule:
    source = tmp_path / "go" / "tools"
    source.mkdir(parents=True)
    (source / "go.mod").write_text("module tools\n")
    monkeypatch.setattr("muster_tools.local_kubernetes.programs.SOURCES", source.parent)
    return GoModule("tools", {"tool": "example.invalid/tool"}, {"version": "1"})


class TestLookup:
    def test_the_variable_of_one_program_comes_first(self, tmp_path: Path) -> None:
        own, folder = program(tmp_path / "own"), program(tmp_path / "folder" / "kube-apiserver").parent
        environment = {"TEST_ASSET_KUBE_APISERVER": str(own), "KUBEBUILDER_ASSETS": str(folder)}

        assert locate(["kube-apiserver"], environment=environment).path("kube-apiserver") == own

    def test_then_the_folder_of_envtest(self, tmp_path: Path) -> None:
        found = program(tmp_path / "kubectl")

        assert locate(["kubectl"], environment={"KUBEBUILDER_ASSETS": str(tmp_path)}).path("kubectl") == found

    def test_a_folder_that_lacks_one_leaves_it_to_the_cache(self, tmp_path: Path, module: GoModule, go: Path) -> None:
        environment = {"KUBEBUILDER_ASSETS": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

        found = locate(["tool"], environment=environment, modules=[module]).path("tool")

        assert found == module_dir(module, tmp_path / "cache" / "muster") / "tool"

    def test_a_variable_that_names_nothing_is_an_error_not_a_detour(self, tmp_path: Path) -> None:
        with pytest.raises(NoProgramsError, match=r"TEST_ASSET_ETCD: .* is no program"):
            locate(["etcd"], environment={"TEST_ASSET_ETCD": str(tmp_path / "etcd")})

    def test_a_program_that_no_module_has_is_named(self) -> None:
        with pytest.raises(NoProgramsError, match="kube-proxy: no such program"):
            locate(["kube-proxy"], environment={})

    def test_the_variables_are_those_of_envtest(self) -> None:
        assert variable_of("kube-controller-manager") == "TEST_ASSET_KUBE_CONTROLLER_MANAGER"


class TestBuilding:
    def test_what_was_built_is_not_built_again(self, tmp_path: Path, module: GoModule, go: Path) -> None:
        first = build(module, ["tool"], cache=tmp_path / "cache")
        second = build(module, ["tool"], cache=tmp_path / "cache")

        assert first == second
        assert os.access(first["tool"], os.X_OK)
        assert go.read_text().splitlines() == ["built"]

    def test_a_changed_version_is_built_anew(self, tmp_path: Path, module: GoModule, go: Path) -> None:
        first = build(module, ["tool"], cache=tmp_path / "cache")
        (module.source / "go.mod").write_text("module tools // newer\n")
        second = build(module, ["tool"], cache=tmp_path / "cache")

        assert first["tool"].parent != second["tool"].parent
        assert go.read_text().splitlines() == ["built", "built"]

    def test_only_so_many_versions_are_kept(self, tmp_path: Path, module: GoModule, go: Path) -> None:
        for version in range(bounds.BUILDS_KEPT_MAX + 2):
            (module.source / "go.mod").write_text(f"module tools // {version}\n")
            newest = build(module, ["tool"], cache=tmp_path / "cache")

        kept = [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
        assert len(kept) == bounds.BUILDS_KEPT_MAX
        assert newest["tool"].exists()

    def test_two_at_once_build_once(self, tmp_path: Path, module: GoModule, go: Path) -> None:
        threads = [
            threading.Thread(target=build, args=(module, ["tool"]), kwargs={"cache": tmp_path / "cache"})
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert go.read_text().splitlines() == ["built"]

    def test_a_failure_says_what_go_said_and_leaves_nothing(
        self, tmp_path: Path, module: GoModule, go: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_FAILS", "1")

        with pytest.raises(BuildFailedError, match="no such module"):
            build(module, ["tool"], cache=tmp_path / "cache")
        assert not any(path.is_file() for path in module_dir(module, tmp_path / "cache").iterdir())

    def test_without_go_it_says_what_to_install(
        self, tmp_path: Path, module: GoModule, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(NoProgramsError, match=r"install Go .* or set KUBEBUILDER_ASSETS"):
            build(module, ["tool"], cache=tmp_path / "cache")

    def test_somebody_is_told_before_a_build_and_not_without_one(
        self, tmp_path: Path, module: GoModule, go: Path
    ) -> None:
        said: list[str] = []

        build(module, ["tool"], cache=tmp_path / "cache", say=said.append)
        build(module, ["tool"], cache=tmp_path / "cache", say=said.append)

        assert len(said) == 1


class TestModules:
    @pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
    def test_versions_and_checksums_are_fixed_and_no_address_is_named(self, module: GoModule) -> None:
        required = (module.source / "go.mod").read_text()

        assert (module.source / "go.sum").stat().st_size > 0
        assert "://" not in required
        assert digest_of(module.source) == digest_of(module.source)

    def test_kubernetes_is_told_its_version_or_it_would_emulate_none(self, tmp_path: Path) -> None:
        kubernetes = next(module for module in MODULES if module.name == "kubernetes")

        words = " ".join(command_of(kubernetes, ["kube-apiserver"], tmp_path))

        assert "k8s.io/component-base/version.gitVersion=v1.34.4" in words
        assert "k8s.io/kubernetes v1.34.4" in (kubernetes.source / "go.mod").read_text()
