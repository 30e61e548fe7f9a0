"""Checks of nodes and gangs: their catalogue, their execution, and the parsing of their output."""
