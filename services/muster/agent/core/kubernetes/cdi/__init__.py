"""Composable machines in Kubernetes: MachineSets, an autoscaler's signals, hot plug, requests and pools as objects."""
