"""Kubernetes: a connection to an API server, a reflector per kind of object, permissions, kinds that ask for jobs.

Callers use `connection` (`KubeConnection`), `reflector` (`Reflector`), `resources`, `objects` and `errors`; permissions
are rows of `permissions`. A contract in pyproject.toml lists the internal modules.
"""
