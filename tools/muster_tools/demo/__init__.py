"""`muster demo` and `muster guard demo`: Muster at work, on stacks and control planes of their own."""
