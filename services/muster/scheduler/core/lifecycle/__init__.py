"""The fact that follows for a job from observations and requests."""
