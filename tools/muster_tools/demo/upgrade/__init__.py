"""Upgrades of a busy fleet in virtual time: in turns that jobs leave room for, and as people drain by hand."""
