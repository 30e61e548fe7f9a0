"""Long simulations: a trace or a synthetic week through the cores, and a report of the results."""
