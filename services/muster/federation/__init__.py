"""The federation: routes jobs to clusters, forwards requests, and copies reports."""
