"""`muster guard demo`: what endangers API servers, on a local control plane, before and after the cure."""
