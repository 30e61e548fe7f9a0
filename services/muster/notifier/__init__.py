"""Sends webhooks and chat messages for selected facts to other systems."""
