"""`muster guard demo`: loads that endanger API servers, on a local control plane, before and after the remedy."""
