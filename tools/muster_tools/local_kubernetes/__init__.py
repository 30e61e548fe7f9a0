"""A real control plane on this machine: API server, etcd and what else is wanted, with KWOK in place of kubelets.

For tests, `muster bench kubernetes` and `muster guard demo`; never for work that matters (etcd does not flush).
"""
