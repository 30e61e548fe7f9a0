"""Measurements of the whole stack, of the log and of the placement engine, each with the machine it ran on."""
