"""Checks of nodes and gangs: which there are, how they are run, how their output is read."""
