"""Weeks of one job on a large fleet that fails as published fleets do, in virtual time: what is lost, and to what."""
