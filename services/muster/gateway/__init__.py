"""The gateway: the HTTP door of the house."""
