"""The gateway's surroundings for tests, and who logs in there."""
