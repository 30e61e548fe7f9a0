"""Reservations: for jobs that starve, and advance reservations on request."""
