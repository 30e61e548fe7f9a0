"""Upgrades of a busy fleet in virtual time: by a campaign in an order that jobs allow, and by manual drains."""
