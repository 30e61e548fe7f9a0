"""Users whom others vouch for: an OpenID Connect provider, or a Kubernetes API server."""
