"""Upgrades nodes under running jobs without hurting one: campaigns and their plans."""
