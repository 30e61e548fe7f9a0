"""The agent's hands and eyes at a Kubernetes API server; what they do is decided in `agent.core.kubernetes`."""
