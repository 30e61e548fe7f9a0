"""Which images are named without a digest, and how they get one."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@pytest.fixture(scope="module")
def pin() -> ModuleType:
    found = importlib.util.spec_from_file_location("pin_images", ROOT / "compose" / "pin_images.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("compose", "k8s/base"):
        (tmp_path / folder).mkdir(parents=True)
    own = "x: {image: y}\nservices:\n  a:\n    image: ${MUSTER_IMAGE:-muster:local}\n"
    (tmp_path / "compose" / "compose.yaml").write_text(f"{own}  b:\n    image: redis:7.4.6-alpine  # the view\n")
    (tmp_path / "compose" / "Dockerfile").write_text("ARG PYTHON_IMAGE=python:3.11-slim\nFROM ${PYTHON_IMAGE}\n")
    (tmp_path / "k8s" / "base" / "nats.yaml").write_text(f"- image: muster\n- image: nats:2.15@{TWO}\n")
    return tmp_path


def test_every_public_image_of_this_repository_is_found(pin: ModuleType) -> None:
    found = {image.partition("@")[0] for path in pin.files(ROOT) for image in _named(pin, path)}
    names = {image.rpartition(":")[0] for image in found}
    assert names >= {
        "nats", "redis", "python", "busybox", "prom/prometheus", "grafana/grafana", "jaegertracing/jaeger",
        "otel/opentelemetry-collector-contrib",
    }  # fmt: skip
    assert not any(name.startswith("muster") for name in names)


def _named(pin: ModuleType, path: Path) -> list[str]:
    return [one["image"] for one in pin.NAMED.finditer(path.read_text())]


def test_an_image_without_a_digest_is_told_and_fails(
    pin: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pin.main([], root=root) == 1
    told = capsys.readouterr().err
    assert "compose/compose.yaml: redis:7.4.6-alpine has no digest" in told
    assert "python:3.11-slim" in told
    assert "nats" not in told


def test_digests_are_written_behind_tags_and_nothing_else_changes(pin: ModuleType, root: Path) -> None:
    before = (root / "k8s" / "base" / "nats.yaml").read_text()
    assert pin.main(["--write"], root=root, resolve=lambda _: ONE) == 0
    assert f"    image: redis:7.4.6-alpine@{ONE}  # the view\n" in (root / "compose" / "compose.yaml").read_text()
    assert (root / "compose" / "Dockerfile").read_text().startswith(f"ARG PYTHON_IMAGE=python:3.11-slim@{ONE}\n")
    assert (root / "k8s" / "base" / "nats.yaml").read_text() == before
    assert "${MUSTER_IMAGE:-muster:local}\n" in (root / "compose" / "compose.yaml").read_text()
    assert pin.main([], root=root) == 0


def test_nothing_is_written_where_one_registry_does_not_answer(pin: ModuleType, root: Path) -> None:
    def answers_for_one(image: str) -> str:
        if "redis" in image:
            return ONE
        raise pin.ResolveError(f"{image}: no answer")

    assert pin.main(["--write"], root=root, resolve=answers_for_one) == 1
    assert "@" not in (root / "compose" / "compose.yaml").read_text()


@pytest.mark.parametrize("answer", ["", "latest", ONE + "0", f"{ONE}\n{TWO}"])
def test_only_a_digest_is_believed(
    pin: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(pin.ResolveError, match="no digest"):
        pin.ask_registry("redis:7")
