"""Objects of Kubernetes that stand for jobs: their requests, the outcomes, and their status."""
