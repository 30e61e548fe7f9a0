"""`muster demo` and `muster guard demo`: demonstrations of Muster, on separate stacks and control planes."""
