"""Control planes, API servers and objects for tests."""
