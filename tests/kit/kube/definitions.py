"""Kinds of objects that ask to run, beside those that every API server serves."""

import subprocess
from pathlib import Path

from kit.kube.planes import AnyPlane, kubectl_argv

ROOT = Path(__file__).parents[3]
DEFINITIONS = (ROOT / "k8s/base/crds/musterjob.yaml", *sorted((ROOT / "tests/kubernetes/crds").glob("*.yaml")))


def define(plane: AnyPlane) -> None:
    """Have the kinds served; applied as every other test of a plane that they share does, or their owners conflict."""
    files = [word for path in DEFINITIONS for word in ("-f", str(path))]
    for words in (("apply", "--server-side"), ("wait", "--for=condition=Established")):
        subprocess.run(kubectl_argv(plane, *words, *files), check=True, capture_output=True, timeout=60)
