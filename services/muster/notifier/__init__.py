"""Tells other systems: webhooks and chat messages for chosen facts."""
