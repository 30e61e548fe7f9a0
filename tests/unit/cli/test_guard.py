"""`muster guard`: what it takes, what it prints, and the files for the audit webhook."""

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509

from muster.cli import guarding
from muster.cli.errors import CliError, ExitCode
from muster.cli.guard_audit import files
from muster.cli.main import run
from muster.guard.audit import read_tls
from muster.guard.core.config import Kind
from muster.schemas.apiserver import (
    ApiServerReplica,
    ApiServerReport,
    FlowLevel,
    Lister,
    StandingAdvice,
    StoredKind,
)

REPORT = ApiServerReport(
    guarded=True,
    replicas=(ApiServerReplica(name="10.0.0.1:6443", memory_mib=2_094),),
    memory_skew=4.1,
    listers=(Lister(client="poller/1.0", resource="secrets", lists_per_minute=240, lists=240),),
    levels=(FlowLevel(name="muster-list-secrets", seats=3, wanted=2, queued=10),),
    kinds=(StoredKind(resource="secrets", objects=300, bytes=42 * 2**20),),
    advices=(StandingAdvice(id="memory-skew", code="memory-skew", detail="4.1 times", cure="goaway"),),
    lacking=("pods cannot be read",),
)


@pytest.mark.parametrize(
    ("word", "kind"),
    [("secrets=2", Kind("secrets", "", 2)), ("workloads.kueue.x-k8s.io=4", Kind("workloads", "kueue.x-k8s.io", 4))],
)
def test_a_kind_is_a_resource_and_its_seats(word: str, kind: Kind) -> None:
    assert guarding.kind_of(word) == kind


@pytest.mark.parametrize("word", ["secrets", "secrets=0", "=2", "secrets=two", ".batch=2"])
def test_what_is_no_kind_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(CliError, match=r"secrets=2 or jobs\.batch=4") as refused:
        guarding.kind_of(word)
    assert refused.value.code is ExitCode.USAGE


def test_a_report_shows_everything_that_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    guarding.print_report(REPORT)
    said = capsys.readouterr().out
    for words in ("2094", "4.10 times", "poller/1.0", "240", "muster-list-secrets", "42.0", "goaway", "pods cannot"):
        assert words in said


def test_a_report_of_a_simulated_cluster_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    guarding.print_report(ApiServerReport())
    assert "simulated" in capsys.readouterr().out


def test_without_a_cluster_it_is_said_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert run(["guard", "apply", "--dry-run", "--state-dir", str(tmp_path)]) == ExitCode.USAGE
    assert "--kubeconfig" in capsys.readouterr().err


def test_the_audit_files_log_lists_alone_and_name_the_guard(tmp_path: Path) -> None:
    flags = files(tmp_path / "new", url="http://guard.muster:9110", token="secret")
    assert flags[0] == f"--audit-policy-file={tmp_path}/new/audit-policy.json"
    policy = json.loads((tmp_path / "new" / "audit-policy.json").read_text())
    assert policy["rules"] == [{"level": "Metadata", "verbs": ["list"]}, {"level": "None"}]
    webhook = json.loads((tmp_path / "new" / "audit-webhook.json").read_text())
    assert webhook["clusters"][0]["cluster"]["server"] == "http://guard.muster:9110/audit/secret"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "new").iterdir())


@pytest.mark.parametrize("host", ["guard-audit.muster.svc", "10.0.0.7"])
def test_a_certificate_for_the_urls_host_is_made_once_and_trusted(tmp_path: Path, host: str) -> None:
    into = tmp_path / "new"
    words = ["guard", "audit", str(into), "--url", f"https://{host}:9443"]
    assert run(words) == run(words) == ExitCode.OK
    pem = (into / "audit.crt").read_bytes()
    cluster = json.loads((into / "audit-webhook.json").read_text())["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == pem
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == [host]
    assert read_tls((into / "audit.crt", into / "audit.key")) is not None
    assert all(path.stat().st_mode & 0o077 == 0 for path in into.iterdir())


def test_an_authority_of_ones_own_makes_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("own")
    words = ["guard", "audit", str(tmp_path / "new"), "--url", "https://guard:9443", "--ca", str(tmp_path / "ca.crt")]
    assert run(words) == ExitCode.OK
    cluster = json.loads((tmp_path / "new" / "audit-webhook.json").read_text())["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"own"
    assert not (tmp_path / "new" / "audit.crt").exists()


def test_a_token_that_is_there_stays(tmp_path: Path) -> None:
    words = ["guard", "audit", str(tmp_path / "new"), "--url", "http://guard.muster:9110"]
    assert run(words) == ExitCode.OK
    first = (tmp_path / "new" / "audit-token").read_text()
    assert len(first) > 32
    assert run(words) == ExitCode.OK
    assert (tmp_path / "new" / "audit-token").read_text() == first
