"""Composable fabrics: the port to a manager, drivers for four makes of managers, and a simulated manager.

Callers use `open` (`open_driver`) and `driver`: the port, its errors, and what a fabric holds. `layout` has the names
on which the simulated cluster, the simulated fabric and the scaler agree. The drivers are internal, by a contract in
pyproject.toml.
"""
