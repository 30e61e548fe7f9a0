"""Kinds of objects that may stand for a job, their paths at the API server."""

from typing import Final

from muster.kube.musterjob import MUSTER_JOBS
from muster.kube.resources import JOBS, PODS, Resource

JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", namespaced=True, kind="JobSet")
MPI_JOBS: Final = Resource("kubeflow.org", "v2beta1", "mpijobs", namespaced=True, kind="MPIJob")

RESOURCES: Final = {resource.kind: resource for resource in (MUSTER_JOBS, PODS, JOBS, JOB_SETS, MPI_JOBS)}
"""By kind."""
