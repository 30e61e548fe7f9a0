"""What shows metrics, traces and pages, for tests."""
