"""From objects as the API server sends them to what they ask: a JobSpec, or why they can be no job. Pure."""
