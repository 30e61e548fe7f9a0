"""Objects of Kubernetes that stand for jobs: what they ask, what became of it, and what they show."""
