"""Kinds of objects that may stand for a job, and their paths at the API server."""

from typing import Final

from muster.kube.resources import JOB_SETS, JOBS, MPI_JOBS, MUSTER_JOBS, PODS

RESOURCES: Final = {resource.kind: resource for resource in (MUSTER_JOBS, PODS, JOBS, JOB_SETS, MPI_JOBS)}
"""By kind."""
