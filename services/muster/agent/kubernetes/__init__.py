"""The agent's I/O at a Kubernetes API server; `agent.core.kubernetes` makes the decisions."""
