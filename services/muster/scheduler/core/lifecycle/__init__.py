"""Which fact follows for a job from what was observed and requested."""
