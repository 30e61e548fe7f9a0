"""`muster guard demo`: what endangers API servers, shown on a local control plane, before and after the cure."""
