"""Admission: refusals, quota, and the bookings that a job may be placed on."""
