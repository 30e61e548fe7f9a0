"""Benchmarks of the whole stack, of the log and of single cores; each result names the machine it was measured on."""
